"""Figure manifests: YAML that pins labels to runs, so that a paper's figures can be drawn again.

```yaml
description: What the figures are for, one sentence.
figures: [e1, e3]            # default: all
axis: engine                 # engine, wall, passes, bytes
smooth: 5                    # evaluations in the moving average
cut: peak_acc                # peak_acc, loss_plateau, none
allow_mixed: false           # whether conditions may differ
labels:
  R1 base: {run_set: ablation, baseline: fluxtune, variant: R1}
  R4 full: 20261130-001234-ablation-fluxtune_R4-sim-7f3a
```

A label stands for a run (any word that finds one), a list of them (seeds of one thing), or a description, which means
the newest launch of the run set with such runs, one for each seed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, Strict

from fluxctl.config.model import Section
from fluxctl.config.presets import preset_names, shipped
from fluxctl.config.problems import validated
from fluxctl.config.source import parse, read_text
from fluxctl.config.tree import Node, problem_at
from fluxctl.errors import ConfigError, ConfigProblemsError, UnknownNameError
from fluxctl.plots.catalogue import EXPERIMENTS
from fluxctl.plots.cut import Cut
from fluxctl.telemetry.series import Axis
from fluxctl.types import Mode

_KIND: Final = "figures"


class RunQuery(Section):
    """Runs by what they are."""

    run_set: str = Field(description="run set that they belong to")
    baseline: str = Field(description="system under test")
    variant: str = Field("", description="variant of the run set")
    mode: Annotated[Mode | None, Strict(False)] = Field(None, description="clock; any by default")


class _File(Section):
    """A figure manifest."""

    description: str = Field("", description="what the figures are for, one sentence")
    figures: Annotated[tuple[str, ...], Strict(False)] = Field(
        tuple(EXPERIMENTS), min_length=1, description="experiments to draw"
    )
    axis: Annotated[Axis, Strict(False)] = Field(Axis.ENGINE, description="what curves run along")
    smooth: int = Field(5, ge=1, le=1000, description="evaluations in the moving average")
    cut: Annotated[Cut, Strict(False)] = Field(Cut.PEAK_ACC, description="where curves end")
    allow_mixed: bool = Field(False, description="show runs of different conditions; the figures say so")
    labels: dict[str, Any] = Field(min_length=1, description="label -> a run, a list of runs, or a description")


@dataclass(frozen=True)
class FigureManifest:
    """A manifest as values.

    Attributes:
        description: What the figures are for.
        figures: Experiments to draw.
        axis: What curves run along.
        smooth: Evaluations in the moving average.
        cut: Where curves end.
        allow_mixed: Whether conditions may differ; the figures say so.
        labels: Words for runs, or a description of them, by label, in order.
        places: Where each label stands, for messages.
    """

    description: str
    figures: tuple[str, ...]
    axis: Axis
    smooth: int
    cut: Cut
    allow_mixed: bool
    labels: Mapping[str, tuple[str, ...] | RunQuery]
    places: Mapping[str, str]


def load_manifest(name: str) -> FigureManifest:
    """Read a shipped manifest, or a file if ``name`` ends in ``.yaml`` or ``.yml``.

    Raises:
        UnknownNameError: With the nearest name.
        ConfigError: If the file is not right; with every problem and its place.
    """
    tree = _parsed(name)
    if not isinstance(tree.value, dict):
        raise problem_at(tree.place, "a figure manifest must be a mapping of keys to values", "it needs labels")
    file = validated(tree, _File)
    problems = _unknown_figures(tree)
    labels: dict[str, tuple[str, ...] | RunQuery] = {}
    places: dict[str, str] = {}
    listed = tree.find(["labels"]).value
    for label, node in listed.items() if isinstance(listed, dict) else ():
        places[label] = node.place.where
        try:
            labels[label] = _runs(node)
        except ConfigProblemsError as error:
            problems += error.problems
        except ConfigError as error:
            problems.append(error)
    if problems:
        raise ConfigProblemsError.of(problems)
    return FigureManifest(
        file.description, file.figures, file.axis, file.smooth, file.cut, file.allow_mixed, labels, places
    )


def _parsed(name: str) -> Node:
    if name.endswith((".yaml", ".yml")):
        return parse(read_text(Path(name)))
    known = preset_names(_KIND)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}, or a file ending in .yaml"
        raise UnknownNameError(f"there is no figure manifest '{name}'", where=f"--figs {name}", hint=hint)
    return shipped(_KIND, name)


def _unknown_figures(tree: Node) -> list[ConfigError]:
    listed = tree.child("figures")
    items = listed.value if listed is not None and isinstance(listed.value, tuple) else ()
    return [
        problem_at(item.place, f"there is no figure '{item.value}'", f"known: {', '.join(EXPERIMENTS)}")
        for item in items
        if item.value not in EXPERIMENTS
    ]


def _runs(node: Node) -> tuple[str, ...] | RunQuery:
    if isinstance(node.value, dict):
        return validated(node, RunQuery)
    items = node.value if isinstance(node.value, tuple) else (node,)
    if not items or not all(isinstance(item.value, str) and item.value for item in items):
        hint = "give a run's id, a list of ids, or {run_set: ..., baseline: ...}"
        raise problem_at(node.place, "a label must stand for runs", hint)
    return tuple(str(item.value) for item in items)
