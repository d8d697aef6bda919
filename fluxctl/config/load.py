"""Layers of wishes to one frozen configuration, with the origin of every value.

Precedence, lowest first: defaults, baseline, run set, file, ``FLUXCTL_SET_*``, ``--set``, flag. Each layer is
validated by itself, so a mistake in a file is reported even if something later would hide it; then the layers are
merged and the rules between values are checked. Names and parameters of policies are checked by a hook, because this
package must not know the policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from fluxctl.config.model import Config
from fluxctl.config.override import Override, as_layer, whole_value
from fluxctl.config.problems import Located, dotted, located
from fluxctl.config.schema import is_choice
from fluxctl.config.source import Text, parse, read_text
from fluxctl.config.tree import DEFAULT, Node, Place, plain_node, problem_at
from fluxctl.errors import ConfigError, ConfigProblemsError


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a value that only a hook can see; ``at_key`` points at the key rather than at the value."""

    path: tuple[str, ...]
    message: str
    hint: str | None = None
    at_key: bool = False


Check: TypeAlias = Callable[[Config], Iterable[Finding]]


@dataclass(frozen=True)
class Resolved:
    """A configuration and the tree it came from."""

    config: Config
    tree: Node

    def origin(self, path: Sequence[str]) -> str:
        """Where the value at ``path`` comes from."""
        return self.tree.find(path).place.origin

    def origins(self) -> Mapping[str, str]:
        """Dotted path of every value -> its origin."""
        return {dotted(path): node.place.origin for path, node in self.tree.leaves()}


def load_layer(source: Text) -> Node:
    """Parse a file that holds a part of a configuration.

    Raises:
        ConfigError: If it is not YAML, not a mapping or has unknown keys or wrong types.
    """
    tree = parse(source)
    validate_layer(tree)
    return tree


def validate_layer(tree: Node) -> None:
    """Check the keys and types of a layer that says only a part.

    Raises:
        ConfigError: With every problem.
    """
    problems = _layer_problems(tree, 0)
    if problems:
        raise _joined(problems)


def resolve(layers: Sequence[Node], overrides: Sequence[Override] = (), *, check: Check | None = None) -> Resolved:
    """Merge layers and overrides into one configuration.

    Args:
        layers: Trees that each say a part, lowest precedence first; the defaults are beneath them.
        overrides: Single values, applied in order on top.
        check: Looks at policies and their parameters.

    Raises:
        ConfigError: With every problem, sorted by layer and position.
    """
    trees = [*map(expand_choices, layers)]
    problems = [problem for number, tree in enumerate(trees) for problem in _layer_problems(tree, number)]
    merged = plain_node(Config().model_dump(mode="json"), DEFAULT)
    if not problems:
        for tree in trees:
            merged = merge(merged, tree)
    for number, override in enumerate(overrides, start=len(trees)):
        try:
            layer = expand_choices(as_layer(whole_value(override, merged)))
        except ConfigError as error:
            problems.append(((number, 0, 0), error))
            continue
        found = _layer_problems(layer, number)
        problems += found
        if not found:
            merged = merge(merged, layer)
    if problems:
        raise _joined(problems)
    return Resolved(_finish(merged, [*trees, *(as_layer(override) for override in overrides)], check), merged)


def read_config(path: Path, *, check: Check | None = None) -> Resolved:
    """Read a whole configuration, for example the ``config.yaml`` of a run directory."""
    return resolve([load_layer(read_text(path))], check=check)


def merge(low: Node, high: Node, path: tuple[str, ...] = ()) -> Node:
    """Put ``high`` over ``low``, value by value.

    Parameters belong to the policy that they were written for: where ``high`` names another policy, those of ``low``
    are dropped.
    """
    if not (isinstance(low.value, dict) and isinstance(high.value, dict)):
        return high
    members = dict(low.value)
    if is_choice(path) and "name" in high.value and high.value["name"].value != members["name"].value:
        members = {"params": Node({}, high.value["name"].place)}
    for name, child in high.value.items():
        members[name] = merge(members[name], child, (*path, name)) if name in members else child
    return replace(high, value=members)


def expand_choices(tree: Node, path: tuple[str, ...] = ()) -> Node:
    """Write the short form of a policy, ``rate: new``, in full: ``rate: {name: new}``."""
    if isinstance(tree.value, str) and is_choice(path):
        return replace(tree, value={"name": replace(tree, key=tree.place)})
    if isinstance(tree.value, dict):
        return replace(tree, value={name: expand_choices(child, (*path, name)) for name, child in tree.value.items()})
    return tree


def _layer_problems(tree: Node, number: int) -> list[Located]:
    if not isinstance(tree.value, dict):
        what = "is empty" if tree.value is None else "must be a mapping of keys to values"
        return [((number, 0, 0), problem_at(tree.place, f"the configuration {what}", "for example `seed: 0`"))]
    try:
        Config.model_validate(expand_choices(tree).plain())
    except ValidationError as error:
        return located(error, expand_choices(tree), layer=number, cross_field=False)
    return []


def _finish(tree: Node, layers: Sequence[Node], check: Check | None) -> Config:
    ranks = {id(node.place): number for number, layer in enumerate(layers, start=1) for _, node in layer.leaves()}

    def rank(place: Place) -> int:
        return ranks.get(id(place), 0)

    try:
        config = Config.model_validate(tree.plain())
    except ValidationError as error:
        raise _joined(located(error, tree, rank=rank)) from None
    findings = [] if check is None else list(check(config))
    if findings:
        raise ConfigProblemsError.of(_placed(finding, tree) for finding in findings)
    return config


def _placed(finding: Finding, tree: Node) -> ConfigError:
    node = tree.find(finding.path)
    place = (node.key or node.place) if finding.at_key else node.place
    return problem_at(place, finding.message, finding.hint)


def _joined(problems: Iterable[Located]) -> ConfigError:
    return ConfigProblemsError.of(problem for _, problem in sorted(problems, key=lambda item: item[0]))
