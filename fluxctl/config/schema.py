"""What the model of a run says about itself: sections, leaves and names, for error messages and comments."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fluxctl.config.model import Choice, Config
from fluxctl.config.source import snake


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The section that a field holds; None for a plain value."""
    kind = field.annotation
    candidates: tuple[Any, ...] = (kind, *get_args(kind))
    return next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)


def section_at(path: Iterable[str | int], model: type[BaseModel] = Config) -> type[BaseModel] | None:
    """The section at a path; None if the path leads to a plain value or nowhere."""
    section: type[BaseModel] | None = model
    for part in path:
        if section is None or part not in section.model_fields:
            return None
        section = section_of(section.model_fields[str(part)])
    return section


def field_at(path: tuple[str | int, ...], model: type[BaseModel] = Config) -> FieldInfo | None:
    """The field at a path; parts that are list positions are ignored."""
    names = [part for part in path if isinstance(part, str)]
    section = section_at(names[:-1], model) if names else None
    return section.model_fields.get(names[-1]) if section else None


def is_choice(path: Iterable[str | int]) -> bool:
    """Whether the value at ``path`` is a policy with parameters."""
    return section_at(path) is Choice


def leaf_paths(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Dotted paths of all values, in the order of the model."""
    for name, field in model.model_fields.items():
        section = section_of(field)
        if section is None:
            yield prefix + name
        else:
            yield from leaf_paths(section, f"{prefix}{name}.")


@lru_cache(maxsize=1)
def _paths_by_leaf() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in leaf_paths():
        found.setdefault(path.rpartition(".")[2], path)
        if path.endswith(".name"):
            owner = path.removesuffix(".name")
            found.setdefault(owner.rpartition(".")[2], owner)
    return found


def suggest_key(path: tuple[str | int, ...], model: type[BaseModel] = Config) -> str:
    """A hint for the unknown key at the end of ``path``."""
    name = str(path[-1])
    section = section_at(path[:-1], model)
    siblings = list(section.model_fields) if section else []
    if snake(name) in siblings:
        return f"did you mean '{snake(name)}'?"
    if model is Config and snake(name) in _paths_by_leaf():
        return f"did you mean '{_paths_by_leaf()[snake(name)]}'?"
    close = difflib.get_close_matches(snake(name), siblings, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    elsewhere = difflib.get_close_matches(snake(name), _paths_by_leaf(), n=1, cutoff=0.75) if model is Config else []
    if elsewhere:
        return f"did you mean '{_paths_by_leaf()[elsewhere[0]]}'?"
    return f"known keys here: {', '.join(sorted(siblings))}" if siblings else "no keys are known here"
