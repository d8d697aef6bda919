"""One registry for each kind of policy that a preset can name: selectors, rates, staleness policies.

An entry is a name, a frozen ``Params`` model that validates what a preset may set, and a factory. Registration
happens at import and refuses bad or duplicate names, so that a typo fails at start and not in hour 40.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fluxctl.errors import ConfigError, UnknownNameError

T = TypeVar("T")
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


class Params(BaseModel):
    """Base of every policy's parameters: frozen, strict, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for a near miss, else the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered policy: its name, parameter model, factory and one-line summary."""

    name: str
    params_model: type[Params]
    factory: Callable[[Any], T]
    summary: str


@dataclass
class Registry(Generic[T]):
    """Names of one kind of policy.

    Args:
        kind: What the names stand for, in the words of an error message, for example ``selector``.
    """

    kind: str
    _entries: dict[str, Entry[T]] = field(default_factory=dict)

    def register(
        self, name: str, params_model: type[Params] = Params
    ) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
        """Decorate a factory ``(params) -> policy`` (usually the policy class itself) under ``name``."""
        if not _NAME.match(name):
            raise ValueError(f"{self.kind} name {name!r} must be lower snake case")
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")

        def add(factory: Callable[[Any], T]) -> Callable[[Any], T]:
            summary = (factory.__doc__ or "").strip().split("\n")[0]
            self._entries[name] = Entry(name, params_model, factory, summary)
            return factory

        return add

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

    def entry(self, name: str) -> Entry[T]:
        """Look an entry up.

        Raises:
            UnknownNameError: With the nearest known name.
        """
        if name not in self._entries:
            raise UnknownNameError(f"unknown {self.kind} '{name}'", hint=suggestion(name, self._entries))
        return self._entries[name]

    def params(self, name: str, values: dict[str, Any]) -> Params:
        """Validate ``values`` for the policy ``name``.

        Raises:
            UnknownNameError: If the name is not registered.
            ConfigError: If a parameter is unknown or of the wrong type.
        """
        entry = self.entry(name)
        try:
            return entry.params_model(**values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            known = list(entry.params_model.model_fields)
            hint = suggestion(key, known) if known else f"{self.kind} '{name}' takes no parameters"
            raise ConfigError(f"{self.kind} '{name}': parameter '{key}': {first['msg'].lower()}", hint=hint) from None

    def build(self, name: str, values: dict[str, Any]) -> T:
        """Validate the parameters and build the policy."""
        return self.entry(name).factory(self.params(name, values))
