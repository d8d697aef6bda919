"""``config.yaml``: a whole configuration as text, each value with its origin and meaning beside it.

Reading the text back gives an equal :class:`~fluxctl.config.model.Config` (a property test holds this).
"""

from __future__ import annotations

import json
import re
from typing import Final

from pydantic import BaseModel

from fluxctl.config.load import Resolved
from fluxctl.config.model import Choice
from fluxctl.config.schema import section_of
from fluxctl.config.tree import Plain

_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_RESERVED: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def render(resolved: Resolved) -> str:
    """The configuration as commented YAML."""
    lines = ["# What this run was asked to do: value  # origin | meaning"]
    _section(resolved.config, resolved, (), lines)
    return "\n".join(lines) + "\n"


def scalar(value: Plain) -> str:
    """A value in YAML's flow style, on one line, in ASCII."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {scalar(child)}" for name, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
            return value
        return '"' + "".join(map(_escaped, value)) + '"'
    return json.dumps(value)


def _escaped(char: str) -> str:
    if " " <= char <= "~":
        return json.dumps(char)[1:-1]  # JSON's escapes of a quote and a backslash are YAML's
    return f"\\u{ord(char):04X}" if char <= "\uffff" else f"\\U{ord(char):08X}"


def one_line(text: str) -> str:
    """Text that is safe in a comment: no line breaks or other control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _section(section: BaseModel, resolved: Resolved, path: tuple[str, ...], lines: list[str]) -> None:
    pad = "  " * len(path)
    rows: list[tuple[str, str]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        here = (*path, name)
        if isinstance(value, BaseModel) and not isinstance(value, Choice):
            _flush(rows, lines)
            lines.append(f"\n# {(section_of(field) or type(value)).__doc__}")
            lines.append(f"{pad}{name}:")
            _section(value, resolved, here, lines)
        elif isinstance(value, Choice):
            _flush(rows, lines)
            lines.append(f"{pad}{name}:  # {field.description}")
            for part, content in (("name", value.name), ("params", value.params)):
                lines.append(f"{pad}  {part}: {scalar(content)}  # {one_line(resolved.origin((*here, part)))}")
        else:
            plain = section.model_dump(mode="json", include={name})[name]
            rows.append((f"{pad}{name}: {scalar(plain)}", f"{one_line(resolved.origin(here))} | {field.description}"))
    _flush(rows, lines)


def _flush(rows: list[tuple[str, str]], lines: list[str]) -> None:
    width = max((min(len(value), 48) for value, _ in rows), default=0)
    lines += [f"{value:<{width}}  # {comment}" for value, comment in rows]
    rows.clear()
