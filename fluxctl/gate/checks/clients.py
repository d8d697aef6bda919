"""Checks of the modelled world: whether enough clients can be reached, for long enough."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fluxctl.config.durations import show_duration
from fluxctl.gate.facts import Case
from fluxctl.gate.registry import Level, Told, run_check
from fluxctl.types import Verdict


@run_check("full_participation", Level.BLOCK)
def full_participation(case: Case) -> Iterator[Told]:
    """Sync: a barrier that needs every client cannot be under a trace that takes clients away."""
    config, world = case.config, case.world
    num_clients, goal = config.clients.num_clients, config.aggregation.goal
    if config.aggregation.style != "sync" or world is None or world.is_always or goal < num_clients:
        return
    least = int(world.reachable.min())
    if least >= goal:
        return
    yield Told(
        f"each cycle waits for all {num_clients} clients, but trace '{config.availability.trace}' leaves "
        f"{least} to {int(world.reachable.max())} of them reachable at a time",
        f"--aggregation-goal {max(1, least)}, or --set availability.trace=syn_0",
        ("aggregation.goal", "availability.trace"),
    )


@run_check("reachable_goal", Level.BLOCK)
def reachable_goal(case: Case) -> Iterator[Told]:
    """Enough clients can deliver within the budget for one cycle; else nothing can ever commit.

    The K-th earliest first delivery is a bound that no selector can beat.
    """
    config, world = case.config, case.world
    if world is None:
        return
    goal, budget_s = config.aggregation.goal, config.runtime_budget_s()
    earliest_s = float(world.first_delivery_s[goal - 1])
    if earliest_s <= budget_s:
        return
    num = int(np.searchsorted(world.first_delivery_s, budget_s, side="right"))
    longer = f", or --max-runtime {math.ceil(earliest_s)}s" if math.isfinite(earliest_s) else ""
    is_possible = math.isfinite(earliest_s)
    when = f"the first cycle could close at {show_duration(round(earliest_s))}" if is_possible else "they never can"
    yield Told(
        f"no cycle can close: only {num} of {config.clients.num_clients} clients can deliver within the budget of "
        f"{show_duration(budget_s)} of engine time, {goal} are needed ({when})",
        f"--aggregation-goal {num}{longer}" if num else f"a trace with more availability{longer}",
        ("aggregation.goal", "limits.max_runtime_s", "availability.trace"),
    )


@run_check("trace_too_short", Level.BLOCK)
def trace_too_short(case: Case) -> Iterator[Told]:
    """A recorded trace that ends for good lasts as long as the run may."""
    if case.short_trace is not None:
        trouble = case.short_trace
        yield Told(trouble.message, trouble.hint or f"see {trouble.path}", (trouble.path, "limits.max_runtime_s"))


@run_check("trace_starves", Level.BLOCK)
def trace_starves(case: Case) -> Iterator[Told]:
    """The trace, walked through without training, lets at least one cycle close."""
    course, config = case.course, case.config
    if course is None or course.num_cycles >= 1:
        return
    goal, largest = config.aggregation.goal, course.largest_goal
    trace = config.availability.trace
    yield Told(
        f"walked through without training, trace '{trace}' closes no cycle of {goal} updates in "
        f"{show_duration(round(course.engine_s))} of engine time: {course.reachable_mean:.1f} of "
        f"{config.clients.num_clients} clients can be reached on average, fewer than {goal} for "
        f"{course.share_below_goal:.0%} of the time ({course.reason})",
        f"--aggregation-goal {largest}" if largest else "a trace with more availability, or more clients",
        ("aggregation.goal", "availability.trace", "limits.max_runtime_s"),
    )


@run_check("trace_ends", Level.WARN)
def trace_ends(case: Case) -> Iterator[Told]:
    """The trace does not run out of clients before the run's budget."""
    course = case.course
    if course is None or course.verdict is not Verdict.STARVED or course.num_cycles < 1:
        return
    yield Told(
        f"walked through without training, the run would end STARVED after {show_duration(round(course.engine_s))} and "
        f"about {course.num_cycles:,.0f} cycles: {course.reason}",
        f"--max-runtime {max(1, math.floor(course.engine_s))}s ends it before, as COMPLETED",
        ("availability.trace", "limits.max_runtime_s"),
    )


@run_check("scarce_clients", Level.WARN)
def scarce_clients(case: Case) -> Iterator[Told]:
    """There are mostly as many reachable clients as shall be in flight."""
    config, world = case.config, case.world
    if world is None or world.is_always:
        return
    mean, wanted = float(world.reachable.mean()), config.aggregation.concurrency
    lower = max(config.aggregation.goal, int(mean))
    if mean < wanted:
        yield Told(
            f"on average {mean:.1f} of {config.clients.num_clients} clients are reachable, fewer than the {wanted} "
            "that shall be in flight: slots stay empty",
            f"--concurrency {lower}, or more clients" if lower < wanted else "more clients, or another trace",
            ("aggregation.concurrency", "availability.trace"),
        )


@run_check("abandon_after", Level.WARN)
def abandon_after(case: Case) -> Iterator[Told]:
    """A client that is at work is not taken for a silent one."""
    world, limit_s = case.world, case.config.engine.abandon_after_s
    if world is None or float(world.task_s[-1]) < limit_s:
        return
    num = int(np.count_nonzero(world.task_s >= limit_s))
    slowest_s = float(world.task_s[-1])
    yield Told(
        f"{num} of {len(world.task_s)} clients are given up while they compute: the slowest task takes "
        f"{slowest_s:.1f} s, engine.abandon_after_s is {limit_s:g}",
        f"--set engine.abandon_after_s={math.ceil(slowest_s) + 1}",
        ("engine.abandon_after_s",),
    )
