"""Baselines and run sets: the YAML files under ``presets/``.

In a wheel they lie inside the package as ``_presets``, in a checkout or an editable install beside it;
:func:`presets_folder` is the one place that knows.

A baseline has ``description`` and ``config`` (a part of a configuration). A run set has ``description``, ``baselines``,
``condition`` (a part for all of them), ``per_baseline`` (a part for one) and ``variants`` (by name, a part for all:
each baseline runs once in each variant).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, Strict

import fluxctl.config
from fluxctl.config.load import validate_layer
from fluxctl.config.model import Section
from fluxctl.config.problems import validated
from fluxctl.config.source import parse, read_text
from fluxctl.config.tree import Node, mapping, problem_at
from fluxctl.errors import ConfigError, ConfigProblemsError, InvariantError, UnknownNameError
from fluxctl.registry import suggestion

_PACKAGE: Final = Path(fluxctl.config.__file__).parents[1]


class _BaselineFile(Section):
    """A baseline file."""

    description: str = Field(description="what the system under test is, one sentence")
    config: dict[str, Any] = Field(description="a part of a configuration")


class _RunSetFile(Section):
    """A run-set file."""

    description: str = Field(description="what the run set asks, one sentence")
    baselines: Annotated[tuple[str, ...], Strict(False)] = Field(
        min_length=1, description="names of baselines, in order"
    )
    condition: dict[str, Any] = Field(default_factory=dict, description="a part of a configuration, for all baselines")
    per_baseline: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="baseline -> a part of a configuration, for that one"
    )
    variants: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="name -> a part of a configuration; all baselines run in each"
    )


@dataclass(frozen=True)
class Baseline:
    """A system under test as a layer of a configuration."""

    name: str
    description: str
    layer: Node


@dataclass(frozen=True)
class RunSet:
    """Which baselines run, and under which condition."""

    name: str
    description: str
    baselines: tuple[str, ...]
    condition: Node
    per_baseline: Mapping[str, Node]
    variants: Mapping[str, Node]

    def layers(self, baseline: str, variant: str = "") -> list[Node]:
        """The layers for one baseline in one variant, lowest precedence first."""
        parts = [self.condition, self.per_baseline.get(baseline), self.variants.get(variant)]
        return [part for part in parts if part is not None]


def presets_folder(package: Path = _PACKAGE) -> Path:
    """Where the presets of this installation lie.

    Raises:
        InvariantError: If the installation has none.
    """
    for folder in (package / "_presets", package.parent / "presets"):
        if (folder / "run_sets").is_dir():
            return folder
    raise InvariantError("this installation of fluxctl has no presets")


def preset_names(kind: str) -> list[str]:
    """Names of the shipped presets of a kind (``baselines``, ``run_sets``), sorted."""
    return sorted(path.stem for path in (presets_folder() / kind).glob("*.yaml"))


def load_baseline(name: str) -> Baseline:
    """Load a shipped baseline.

    Raises:
        UnknownNameError: With the nearest name.
        ConfigError: If the file is not right.
    """
    tree = _load("baselines", name, "baseline")
    _validate(tree, _BaselineFile)
    layer = tree.find(["config"])
    validate_layer(layer)
    return Baseline(name, str(tree.find(["description"]).value), layer)


def load_run_set(name: str) -> RunSet:
    """Load a shipped run set, or a file in the same format if ``name`` is a path that ends in ``.yaml`` or ``.yml``.

    Raises:
        UnknownNameError: With the nearest name.
        ConfigError: If the file is not right.
    """
    tree = _load("run_sets", name, "run set")
    _validate(tree, _RunSetFile)
    empty = mapping({}, tree.place)
    listed = tree.find(["baselines"])
    names = tuple(str(item.value) for item in listed.value) if isinstance(listed.value, tuple) else ()
    own = tree.child("per_baseline") or empty
    _known_baselines(listed, own, names)
    parts = dict(own.value) if isinstance(own.value, dict) else {}
    condition = tree.child("condition") or empty
    varied = (tree.child("variants") or empty).value
    variants = dict(varied) if isinstance(varied, dict) else {}
    _each(validate_layer, [condition, *parts.values(), *variants.values()])
    return RunSet(Path(name).stem, str(tree.find(["description"]).value), names, condition, parts, variants)


def _load(kind: str, name: str, what: str) -> Node:
    if name.endswith((".yaml", ".yml")):
        return parse(read_text(Path(name)))
    known = preset_names(kind)
    if name not in known:
        raise UnknownNameError(f"there is no {what} '{name}'", hint=suggestion(name, known))
    return shipped(kind, name)


@cache
def shipped(kind: str, name: str) -> Node:
    """A shipped preset as a tree, read once; ``name`` is one of :func:`preset_names`.

    Raises:
        ConfigError: If it is no YAML.
    """
    return parse(read_text(presets_folder() / kind / f"{name}.yaml", f"presets/{kind}/{name}.yaml"))


def _validate(tree: Node, model: type[Section]) -> None:
    if not isinstance(tree.value, dict):
        what = "is empty" if tree.value is None else "must be a mapping of keys to values"
        raise problem_at(tree.place, f"the file {what}", f"it needs {', '.join(model.model_fields)}")
    validated(tree, model)


def _known_baselines(listed: Node, own: Node, names: tuple[str, ...]) -> None:
    problems: list[ConfigError] = []
    known = preset_names("baselines")
    for item in listed.value if isinstance(listed.value, tuple) else ():
        if item.value not in known:
            hint = suggestion(str(item.value), known)
            problems.append(problem_at(item.place, f"there is no baseline '{item.value}'", hint))
    for name, node in own.value.items() if isinstance(own.value, dict) else ():
        if name not in names:
            place = node.key or node.place
            problems.append(problem_at(place, f"'{name}' is not among this run set's baselines", "add it to baselines"))
    if problems:
        raise ConfigProblemsError.of(problems)


def _each(validate: Callable[[Node], None], trees: list[Node]) -> None:
    """Validate all trees before raising, so that one file's problems come together."""
    problems: list[ConfigError] = []
    for tree in trees:
        try:
            validate(tree)
        except ConfigProblemsError as error:
            problems += error.problems
        except ConfigError as error:
            problems.append(error)
    if problems:
        raise ConfigProblemsError.of(problems)
