"""Checks of how a run is set up: what it throws away, and what ends it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fluxctl.config.durations import show_duration
from fluxctl.gate.facts import Case
from fluxctl.gate.registry import Level, Told, run_check
from fluxctl.types import Mode


@run_check("over_commit", Level.WARN)
def over_commit(case: Case) -> Iterator[Told]:
    """Sync: what is in flight beyond the goal is thrown away at every barrier."""
    style, goal, concurrency = (
        case.config.aggregation.style,
        case.config.aggregation.goal,
        case.config.aggregation.concurrency,
    )
    if style == "sync" and concurrency > goal:
        surplus = concurrency - goal
        yield Told(
            f"each cycle asks {concurrency} clients and cancels the last {surplus}: {surplus / concurrency:.0%} of the "
            "work is thrown away",
            f"--concurrency {goal}, unless the over-commitment is meant",
            ("aggregation.concurrency", "aggregation.goal"),
        )


@run_check("open_end", Level.WARN)
def open_end(case: Case) -> Iterator[Told]:
    """With a target, something ends a run that never gets there."""
    limits = case.config.limits
    budgets = (limits.max_bins, limits.max_rounds, limits.max_runtime_s, limits.stall_window_s)
    if limits.target_accuracy is not None and budgets == (None,) * len(budgets):
        yield Told(
            f"a run that misses the target goes on for the default budget of "
            f"{show_duration(case.config.runtime_budget_s())} of engine time",
            "--stall-window 2h, --max-bins or --max-runtime",
            ("limits.max_runtime_s", "limits.target_accuracy"),
        )


@run_check("wall_ceiling", Level.WARN)
def wall_ceiling(case: Case) -> Iterator[Told]:
    """A real run has the wall time that its budget takes."""
    config = case.config
    limit_s, needed_s = config.limits.max_wall_s, config.runtime_budget_s() / config.engine.wall_factor
    if config.mode is Mode.REAL and limit_s is not None and limit_s < needed_s:
        yield Told(
            f"the wall ceiling of {show_duration(limit_s)} cuts off a budget of {show_duration(round(needed_s))}",
            f"--set limits.max_wall_s={math.ceil(needed_s)}",
            ("limits.max_wall_s",),
        )
