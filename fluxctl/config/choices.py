"""Check every policy that a configuration names against the registries, with the place of the mistake.

The registries are handed in, because configuration lies beneath the policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from fluxctl.config.load import Check, Finding
from fluxctl.config.model import Choice, Config
from fluxctl.registry import Registry, suggestion


def choice_check(registries: Mapping[str, Registry[Any]]) -> Check:
    """A hook for :func:`fluxctl.config.load.resolve`.

    Args:
        registries: Dotted path of a :class:`~fluxctl.config.model.Choice` -> the registry that knows its names.
    """

    def check(config: Config) -> Iterator[Finding]:
        for dotted, registry in registries.items():
            path = tuple(dotted.split("."))
            choice: object = config
            for part in path:
                choice = getattr(choice, part)
            if isinstance(choice, Choice):
                yield from _findings(path, choice, registry)

    return check


def _findings(path: tuple[str, ...], choice: Choice, registry: Registry[Any]) -> Iterator[Finding]:
    if choice.name not in registry.names():
        hint = suggestion(choice.name, registry.names())
        yield Finding((*path, "name"), f"unknown {registry.kind} '{choice.name}'", hint)
        return
    model = registry.entry(choice.name).params_model
    try:
        model.model_validate(choice.params)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = ".".join(map(str, detail["loc"]))
            at = (*path, "params", *map(str, detail["loc"]))
            if detail["type"] == "extra_forbidden":
                known = list(model.model_fields)
                hint = suggestion(key, known) if known else f"{registry.kind} '{choice.name}' takes no parameters"
                yield Finding(at, f"{registry.kind} '{choice.name}' has no parameter '{key}'", hint, at_key=True)
            else:
                message = detail["msg"][:1].lower() + detail["msg"][1:]
                what = f"parameter '{key}'" if key else "parameters"
                yield Finding(at, f"{registry.kind} '{choice.name}': {what}: {message}")
