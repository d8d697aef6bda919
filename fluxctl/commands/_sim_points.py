"""The points of a sweep: every combination of a grid's values, as runs with their fingerprints."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fluxctl.commands._gate import Gate, GateBlockedError, pass_gate, refuses
from fluxctl.commands._request import Plan, PlannedRun, Request, make_plan
from fluxctl.config.load import validate_layer
from fluxctl.config.override import Override, as_layer, from_grid
from fluxctl.config.presets import load_run_set
from fluxctl.config.problems import dotted
from fluxctl.config.tree import Plain
from fluxctl.errors import ConfigError, FluxError
from fluxctl.gate.checks import Finding, Level, Told, examine

MOST_RUNS: Final = 10_000
_IDENTITY: Final = {"run_set": "--run-set", "baseline": "--only", "variant": "--run-set", "mode": "`fluxctl launch`"}


@dataclass(frozen=True)
class Point:
    """One run of a sweep.

    Args:
        values: Dotted path of each key of the grid -> its value here.
        planned: The run; None if its configuration does not make sense.
        label: Baseline, and variant if there is one.
        seed: Its seed; None where that was not resolved.
        refusal: Why it makes no sense.
    """

    values: Mapping[str, Plain]
    planned: PlannedRun | None
    label: str
    seed: int | None
    refusal: FluxError | None = None

    @property
    def print(self) -> str | None:
        """Fingerprint of the run, seed included."""
        return None if self.planned is None else self.planned.prints.run

    @property
    def text(self) -> str:
        """The values, for people."""
        return " ".join(f"{path}={value}" for path, value in self.values.items())


def read_grid(arguments: Sequence[str]) -> list[list[Override]]:
    """Parse ``--grid`` arguments, one list of overrides each.

    Raises:
        ConfigError: If there is none, a key stands twice, does not exist, or a value has the wrong type.
    """
    if not arguments:
        raise ConfigError("there is nothing to sweep: no --grid", hint="for example --grid server.lr=0.005,0.01,0.02")
    axes = [from_grid(argument) for argument in arguments]
    seen: set[str] = set()
    for axis, argument in zip(axes, arguments, strict=True):
        path = dotted(axis[0].path)
        if path in _IDENTITY:
            raise ConfigError(f"{path} is no setting", where=f"--grid {argument}", hint=f"use {_IDENTITY[path]}")
        if path in seen:
            raise ConfigError(
                f"{path} stands twice in the grid", where=f"--grid {argument}", hint="list all its values in one"
            )
        seen.add(path)
        for override in axis:
            if not any(isinstance(part, int) for part in override.path):
                validate_layer(as_layer(override))
    return axes


def make_points(request: Request, axes: Sequence[Sequence[Override]]) -> list[Point]:
    """All points of a grid, the last key changing fastest; within a point, all runs of the request.

    Raises:
        ConfigError: If no point makes sense, with the first reason; or if there are too many.
    """
    points: list[Point] = []
    for combination in itertools.product(*axes):
        values = {dotted(override.path): override.node.plain() for override in combination}
        points += _runs_of(replace(request, flags=[*request.flags, *combination]), values)
        if len(points) > MOST_RUNS:
            raise ConfigError(f"the sweep has more than {MOST_RUNS:,} runs", hint="use fewer values")
    if all(point.planned is None for point in points):
        raise next(point.refusal for point in points if point.refusal is not None)
    return points


def gated(points: Sequence[Point], request: Request, *, forces: bool) -> tuple[list[Point], list[Finding]]:
    """Pass each point through the gate.

    Args:
        points: The sweep.
        request: What it comes from.
        forces: Whether to run what a check blocks.

    Returns:
        The points, with the gate's record; those that it blocks are refused, unless forced. And what else it found.

    Raises:
        GateBlockedError: If nothing is left to run.
    """
    runs = tuple(point.planned for point in points if point.planned is not None)
    gate = pass_gate(Plan(None, runs), request)
    looked = iter(gate.cases)  # runs of a sweep share labels, so each is checked by itself
    passed: list[Point] = []
    told: dict[Told, Finding] = {}
    for point in points:
        if point.planned is None:
            passed.append(point)
            continue
        case = next(looked)
        findings = examine([case])
        is_refused = refuses(findings, forces=forces)
        told |= {finding.told: finding for finding in findings if not is_refused or finding.level is Level.WARN}
        refusal = GateBlockedError(findings) if is_refused else None
        record = Gate((case,), tuple(findings)).record(case, forced=forces)
        passed.append(
            replace(point, planned=None if is_refused else replace(point.planned, gate=record), refusal=refusal)
        )
    if all(point.planned is None for point in passed):
        raise next(point.refusal for point in passed if isinstance(point.refusal, GateBlockedError))
    return passed, list(told.values())


def sweep_id(points: Sequence[Point]) -> str:
    """Eight hex digits that stand for the set of runs."""
    prints = sorted({point.print for point in points if point.print is not None})
    return hashlib.sha256(" ".join(prints).encode()).hexdigest()[:8]


def _runs_of(request: Request, values: Mapping[str, Plain]) -> list[Point]:
    """The runs at one point; a baseline that a value does not suit does not take the others with it."""
    try:
        return [_point(values, run) for run in make_plan(request).runs]
    except ConfigError as error:
        whole = error
    named = request.only or (load_run_set(request.run_set).baselines if request.run_set is not None else ())
    baselines = list(dict.fromkeys(named))
    if len(baselines) < 2:
        return [Point(values, None, baselines[0] if baselines else "custom", None, whole)]
    points: list[Point] = []
    for name in baselines:
        points += _runs_of(replace(request, only=[name]), values)
    return points


def _point(values: Mapping[str, Plain], run: PlannedRun) -> Point:
    return Point(values, run, run.config.label, run.config.seed)
