"""Single values from the command line and the environment.

* ``--set aggregation.goal=5``: a dotted path, a list position in brackets (``model.adapter_blocks[0]=-2``), and a value
  in YAML.
* ``FLUXCTL_SET_AGGREGATION__GOAL=5``: the same path in upper or lower case, two underscores for each dot.
* a flag such as ``--max-bins 60``: a path and a Python value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fluxctl.config.schema import suggest_key
from fluxctl.config.source import Text, parse
from fluxctl.config.tree import DEFAULT, Node, Place, Plain, mapping, plain_node, problem_at
from fluxctl.errors import ConfigError

ENV_PREFIX: Final = "FLUXCTL_SET_"
_PATH: Final = re.compile(r"[A-Za-z_][\w-]*(?:\[\d+\])?(?:\.[A-Za-z_][\w-]*(?:\[\d+\])?)*")
_PART: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Override:
    """One value for one path."""

    path: tuple[str | int, ...]
    node: Node


def from_set(argument: str) -> Override:
    """Parse the argument of ``--set``.

    Raises:
        ConfigError: If it is not ``path=value`` or the value is not YAML.
    """
    return _parsed(argument, f"--set {argument}", "--set")


def from_grid(argument: str) -> list[Override]:
    """Parse the argument of ``--grid``: ``path=value,value,...``, one override for each value.

    Raises:
        ConfigError: If it is not of that form, has no value or one of them twice, or a value is not YAML.
    """
    path, equals, values = argument.partition("=")
    place = f"--grid {argument}"
    listed = _parsed(f"{path}{equals}[{values}]" if equals else argument, place, "--grid")
    items = listed.node.value
    if not isinstance(items, tuple) or not items:
        raise ConfigError("the grid has no value", where=place, hint="for example --grid server.lr=0.005,0.01,0.02")
    texts = [repr(item.plain()) for item in items]
    if len(set(texts)) != len(texts):
        raise ConfigError("a value stands twice in the grid", where=place)
    return [Override(listed.path, replace(item, key=listed.node.key)) for item in items]


def from_env(environ: Mapping[str, str]) -> list[Override]:
    """The overrides in an environment, by name of the variable.

    Raises:
        ConfigError: If a value is not YAML.
    """
    overrides = []
    for name in sorted(environ):
        if name.startswith(ENV_PREFIX) and name != ENV_PREFIX:
            path = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            overrides.append(_parsed(f"{path}={environ[name]}", f"{name}={environ[name]}", f"env {name}"))
    return overrides


def from_flag(flag: str, path: str, value: Plain) -> Override:
    """The override that a flag means, for example ``--max-bins`` for ``limits.max_bins``."""
    shown = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return Override(tuple(path.split(".")), plain_node(value, Place(f"flag {flag}", f"{flag} {shown}")))


def fixed(path: str, value: Plain, origin: str) -> Override:
    """A value that the program itself decides, such as the name of the baseline."""
    return Override(tuple(path.split(".")), plain_node(value, Place(origin, origin)))


def whole_value(override: Override, base: Node) -> Override:
    """Turn an override of a list's item into one of the whole list.

    Raises:
        ConfigError: If ``base`` has no such list or item.
    """
    position = next((depth for depth, part in enumerate(override.path) if isinstance(part, int)), None)
    if position is None:
        return override
    path, index = override.path[:position], override.path[position]
    place = override.node.place
    owner = base.find(path)
    name = ".".join(map(str, path))
    if not isinstance(owner.value, tuple):
        names = tuple(str(part) for part in path)
        hint = suggest_key(names) if base.find(names[:-1]).child(names[-1]) is None else None
        raise problem_at(place, f"{name} is not a list", hint)
    if not isinstance(index, int) or index >= len(owner.value):
        raise problem_at(place, f"{name} has {len(owner.value)} items, there is no [{index}]")
    if position + 1 < len(override.path):
        raise problem_at(place, f"{name}[{index}] is a plain value, it has no keys")
    items = [*owner.value]
    items[index] = override.node
    return Override(path, Node(tuple(items), place, override.node.key))


def as_layer(override: Override) -> Node:
    """The override as a tree that says only this value."""
    node = override.node
    for part in reversed([str(part) for part in override.path]):
        node = mapping({part: node}, override.node.place)
        node = replace(node, key=override.node.place)
    return node


def overrides_of(sets: Sequence[str], environ: Mapping[str, str]) -> list[Override]:
    """Environment first, then ``--set``, so that the command line wins."""
    return [*from_env(environ), *map(from_set, sets)]


def _parsed(assignment: str, name: str, origin: str) -> Override:
    path, equals, value = assignment.partition("=")
    if not equals or not _PATH.fullmatch(path.strip()):
        raise ConfigError(
            "expected a dotted path, an equals sign and a value",
            where=name,
            hint="for example --set aggregation.goal=5",
        )
    parts = tuple(int(index) if index else part for part, index in _PART.findall(path.strip()))
    node = parse(Text(value, name, origin))
    if node.place == DEFAULT:  # an empty value
        node = replace(node, place=Place(origin, name))
    return Override(parts, replace(node, key=Place(origin, name)))
