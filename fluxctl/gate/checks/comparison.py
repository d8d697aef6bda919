"""Checks that compare the runs of a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fluxctl.gate.facts import Case
from fluxctl.gate.registry import Level, Told, set_check

V = TypeVar("V")


@set_check("goals_differ", Level.WARN)
def goals_differ(cases: Sequence[Case]) -> Iterator[Told]:
    """All systems commit as many updates at a time."""
    goals = _by_label(cases, lambda case: case.config.aggregation.goal)
    if len(set(goals.values())) > 1:
        told = ", ".join(f"{label} {goal}" for label, goal in goals.items())
        yield Told(
            f"the aggregation goal differs: {told}; bins of different sizes are no common axis",
            f"--aggregation-goal {min(goals.values())} for all, unless the difference is meant",
            ("aggregation.goal",),
        )


@set_check("conditions_differ", Level.WARN)
def conditions_differ(cases: Sequence[Case]) -> Iterator[Told]:
    """All runs are of one condition, so that they may share a figure."""
    conditions = _by_label(cases, lambda case: case.prints.condition)
    if len(set(conditions.values())) > 1:
        groups: dict[str, list[str]] = {}
        for label, condition in conditions.items():
            groups.setdefault(condition, []).append(label)
        told = "; ".join(f"{condition}: {', '.join(labels)}" for condition, labels in groups.items())
        yield Told(
            f"the runs are of {len(groups)} conditions and cannot share a figure ({told})",
            "put what should be equal into the run set's condition",
            (),
        )


def _by_label(cases: Iterable[Case], value: Callable[[Case], V]) -> dict[str, V]:
    return {case.config.label: value(case) for case in cases}
