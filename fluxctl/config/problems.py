"""pydantic's complaints as problems with a place: what must hold, what was given, where, and what to do."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fluxctl.config.model import Config
from fluxctl.config.schema import field_at, section_at, suggest_key
from fluxctl.config.tree import DEFAULT, Node, Place, problem_at
from fluxctl.errors import ConfigError, ConfigProblemsError

M = TypeVar("M", bound=BaseModel)
Loc = tuple[str | int, ...]
Located = tuple[tuple[int, int, int], ConfigError]  # (layer, line, column) and the problem there

# kind of pydantic error -> what the value must be; {} names come from the error's context
_MUST_BE: Final = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "duration": "seconds or a duration such as 90s, 2h or 1d2h",
}
_YAML_11_BOOLS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})


def dotted(path: Iterable[str | int]) -> str:
    """``aggregation.goal``, ``data.classes[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any) -> str:  # noqa: ANN401 - anything that YAML can hold
    """A value as an error message shows it, short."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def validated(tree: Node, model: type[M]) -> M:
    """The content of one file as a model.

    Raises:
        ConfigProblemsError: With every problem and its place, in the order of the file.
    """
    try:
        return model.model_validate(tree.plain())
    except ValidationError as error:
        found = sorted(located(error, tree, model=model), key=lambda item: item[0])
        raise ConfigProblemsError.of(problem for _, problem in found) from None


def located(
    error: ValidationError,
    tree: Node,
    *,
    layer: int = 0,
    rank: Callable[[Place], int] | None = None,
    model: type[BaseModel] = Config,
    cross_field: bool = True,
) -> list[Located]:
    """The problems of one validation.

    Args:
        error: What pydantic found.
        tree: The tree that was validated.
        layer: Place of ``tree`` among the layers, for sorting.
        rank: How late a place's layer is applied; a rule between values is reported at the latest of them.
        model: What the tree was validated against.
        cross_field: Whether to report rules between values and missing keys; False for a layer that says only a part.
    """
    problems = []
    for detail in error.errors(include_url=False):
        kind = detail["type"]
        if kind in ("value_error", "missing") and not cross_field:
            continue
        place, problem = (
            _broken_rule(detail, tree, rank or (lambda _: 0))
            if kind == "value_error"
            else _wrong_value(detail, tree, model)
        )
        problems.append(((layer, place.line, place.column), problem))
    return problems


def _wrong_value(detail: ErrorDetails, tree: Node, model: type[BaseModel]) -> tuple[Place, ConfigError]:
    loc, kind = detail["loc"], detail["type"]
    node = tree.find(loc)
    name = dotted(loc) or "the file"
    if kind == "extra_forbidden":
        place = node.key or node.place
        return place, problem_at(place, f"unknown key '{name}'", suggest_key(loc, model))
    if kind == "missing":
        place = node.key or node.place
        return place, problem_at(place, f"{name} is missing", _help(loc, model))
    must_be = _MUST_BE.get(kind)
    if must_be is None:
        return node.place, problem_at(node.place, f"{name}: {detail['msg'].lower()}", _help(loc, model))
    limits = {
        name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in detail.get("ctx", {}).items()
    }
    wanted = must_be.format(**limits)
    given = detail["input"]
    message = f"{name} must be {wanted}, got {shown(node.plain()) if node.value is not None else 'nothing'}"
    return node.place, problem_at(node.place, message, _value_hint(kind, wanted, given, loc, model))


def _value_hint(kind: str, wanted: str, given: object, loc: Loc, model: type[BaseModel]) -> str | None:
    if kind == "bool_type" and isinstance(given, str) and given.lower() in _YAML_11_BOOLS:
        return f"YAML 1.2 reads '{given}' as text; write true or false"
    if kind in ("literal_error", "enum"):
        close = difflib.get_close_matches(str(given), re.findall(r"'([^']*)'", wanted), n=1)
        if close:
            return f"did you mean '{close[0]}'?"
    return _help(loc, model)


def _help(loc: Loc, model: type[BaseModel]) -> str | None:
    field = field_at(loc, model)
    name = next((part for part in reversed(loc) if isinstance(part, str)), "")
    return f"{name}: {field.description}" if field is not None and field.description else None


def _broken_rule(detail: ErrorDetails, tree: Node, rank: Callable[[Place], int]) -> tuple[Place, ConfigError]:
    """A rule between values: say each value's origin, and point at the one that was set last."""
    loc = detail["loc"]
    message = str(detail["ctx"]["error"]) if "ctx" in detail else detail["msg"]
    section = section_at(loc)
    values: list[tuple[str, Node]] = []
    for word in dict.fromkeys(re.findall(r"[a-z][a-z_0-9]*(?:\.[a-z_0-9]+)*", message)):
        path = (*loc, *word.split("."))
        # a bare word is a value only if it is a field of this very section
        if field_at(path) is not None and (len(path) > len(loc) + 1 or (section and word in section.model_fields)):
            node = tree.find(path)
            if not isinstance(node.value, dict):
                values.append((dotted(path), node))
    if not values:
        place = tree.find(loc).place
        return place, problem_at(place, message)
    blamed = max(values, key=lambda item: (item[1].place != DEFAULT, rank(item[1].place)))[1].place
    origins = "; ".join(f"{name} = {shown(node.plain())} from {node.place.origin}" for name, node in values)
    prefix = f"{dotted(loc)}: " if loc else ""
    return blamed, problem_at(blamed, prefix + message, origins)
