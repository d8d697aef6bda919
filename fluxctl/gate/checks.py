"""Gate checks: each a pure function of what is known before a run, in words that say what to change.

A check that blocks says why the run cannot mean anything, with the numbers, and the smallest change that would make it
feasible. One that warns names something that is allowed and often a slip. Goals beyond concurrency or clients, and more
registered trainers than clients, never get here: a configuration that says so is refused when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import numpy as np

from fluxctl.config.durations import show_duration
from fluxctl.gate.facts import Case
from fluxctl.types import Mode

FAMILIES: Final = ("bert", "distilbert", "roberta")  # what the learner can take apart; a test holds them to it
V = TypeVar("V")
_ALPHA_FACTOR: Final = 2.0  # how far the measured concentration may be from the one asked for


class Level(StrEnum):
    """What a finding does to a launch."""

    BLOCK = "block"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Told:
    """What a check has to say.

    Attributes:
        message: What is wrong, with the numbers.
        hint: The smallest change that helps.
        paths: The values that it is about.
    """

    message: str
    hint: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and in which runs."""

    check: str
    level: Level
    told: Told
    runs: tuple[str, ...]


RunCheck: TypeAlias = Callable[[Case], Iterator[Told]]
SetCheck: TypeAlias = Callable[[Sequence[Case]], Iterator[Told]]


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check, of a run or of all runs together."""

    name: str
    level: Level
    run: RunCheck | None = None
    runs: SetCheck | None = None


CHECKS: Final[dict[str, Check]] = {}


def run_check(name: str, level: Level) -> Callable[[RunCheck], RunCheck]:
    """Register a check that looks at each run by itself."""

    def add(function: RunCheck) -> RunCheck:
        _register(Check(name, level, run=function))
        return function

    return add


def set_check(name: str, level: Level) -> Callable[[SetCheck], SetCheck]:
    """Register a check that compares runs."""

    def add(function: SetCheck) -> SetCheck:
        _register(Check(name, level, runs=function))
        return function

    return add


def _register(check: Check) -> None:
    if check.name in CHECKS:
        raise ValueError(f"gate check {check.name!r} is registered twice")
    CHECKS[check.name] = check


def examine(cases: Sequence[Case]) -> list[Finding]:
    """Run all checks; what several runs have in common is one finding. Blocks come first."""
    found: dict[tuple[str, Told], list[str]] = {}
    for check in CHECKS.values():
        for case in cases if check.run is not None else ():
            for told in check.run(case) if check.run is not None else ():
                found.setdefault((check.name, told), []).append(case.config.label)
        for told in check.runs(cases) if check.runs is not None else ():
            found.setdefault((check.name, told), []).extend(case.config.label for case in cases)
    findings = [
        Finding(name, CHECKS[name].level, told, tuple(dict.fromkeys(labels))) for (name, told), labels in found.items()
    ]
    return sorted(findings, key=lambda finding: finding.level is not Level.BLOCK)


@run_check("usable_parts", Level.BLOCK)
def usable_parts(case: Case) -> Iterator[Told]:
    """Data, trace and model can be found and read."""
    for trouble in case.troubles:
        if not trouble.is_missing:
            yield Told(trouble.message, trouble.hint or f"see {trouble.path}", (trouble.path,))


@run_check("installed_parts", Level.WARN)
def installed_parts(case: Case) -> Iterator[Told]:
    """Files of the demo extra are installed; elsewhere they may be."""
    for trouble in case.troubles:
        if trouble.is_missing:
            yield Told(trouble.message, trouble.hint or f"see {trouble.path}", (trouble.path,))


@run_check("supported_model", Level.BLOCK)
def supported_model(case: Case) -> Iterator[Told]:
    """The estimator can go through the model: its family is known, and it has the blocks and positions asked for."""
    facts, model = case.model, case.config.model
    if facts is None:
        return
    if facts.family not in FAMILIES:
        yield Told(
            f"estimator '{case.config.step.estimator}' cannot run on '{model.name}', a model of type '{facts.family}'",
            f"use a model of type {', '.join(FAMILIES)}",
            ("model.name", "step.estimator"),
        )
        return
    num = facts.num_blocks
    outside = [block for block in model.adapter_blocks if num is not None and not -num <= block < num]
    if outside:
        yield Told(
            f"there is no block {outside[0]} for an adapter: '{model.name}' has {num} blocks",
            f"model.adapter_blocks may name -{num} to {(num or 1) - 1}",
            ("model.adapter_blocks",),
        )
    if facts.max_positions is not None and model.max_len > facts.max_positions:
        yield Told(
            f"texts of {model.max_len} tokens do not fit '{model.name}', which has {facts.max_positions} positions",
            f"--set model.max_len={facts.max_positions}",
            ("model.max_len",),
        )


@run_check("empty_client", Level.BLOCK)
def empty_client(case: Case) -> Iterator[Told]:
    """Every client owns a text."""
    if case.data is None or not case.data.empty_clients:
        return
    num_clients, data = case.config.clients.num_clients, case.data
    per_class = math.ceil(num_clients / len(case.config.data.classes))
    yield Told(
        f"{len(data.empty_clients)} of {num_clients} clients would own no text (the first is client "
        f"{data.empty_clients[0]}): there are {data.num_texts} training texts",
        f"--clients {data.num_texts}, or --set data.train_per_class={per_class}",
        ("clients.num_clients", "data.train_per_class"),
    )


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
    when = f"at {show_duration(round(earliest_s))}" if math.isfinite(earliest_s) else "never"
    yield Told(
        f"no cycle can close: only {num} of {config.clients.num_clients} clients can deliver within the budget of "
        f"{show_duration(budget_s)} of engine time, {goal} are needed (the {goal}th could {when})",
        f"--aggregation-goal {num}{longer}" if num else f"a trace with more availability{longer}",
        ("aggregation.goal", "limits.max_runtime_s", "availability.trace"),
    )


@run_check("scarce_clients", Level.WARN)
def scarce_clients(case: Case) -> Iterator[Told]:
    """There are mostly as many reachable clients as shall be in flight."""
    config, world = case.config, case.world
    if world is None or world.is_always:
        return
    mean, wanted = float(world.reachable.mean()), config.aggregation.concurrency
    if mean < wanted:
        yield Told(
            f"on average {mean:.1f} of {config.clients.num_clients} clients are reachable, fewer than the {wanted} "
            "that shall be in flight: slots stay empty",
            f"--concurrency {max(config.aggregation.goal, int(mean))}, or more clients",
            ("aggregation.concurrency", "availability.trace"),
        )


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


@run_check("alpha", Level.WARN)
def alpha(case: Case) -> Iterator[Told]:
    """The loaded partition is as skewed as was asked for."""
    asked, data = case.config.partition.alpha, case.data
    measured = None if data is None or data.empty_clients else data.measured_alpha
    if measured is None or asked / _ALPHA_FACTOR <= measured <= asked * _ALPHA_FACTOR:
        return
    reason = (
        "few clients use up the labels that they ask for" if measured > asked else "the shards are too small for it"
    )
    yield Told(
        f"the loaded partition looks like alpha {measured:.2g}, asked was {asked:g}: {reason}",
        "more clients, or an alpha nearer to 1" if measured > asked else "fewer clients, or more texts of each class",
        ("partition.alpha",),
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


@run_check("num_workers", Level.WARN)
def num_workers(case: Case) -> Iterator[Told]:
    """Compute threads have cores."""
    asked = case.config.engine.num_workers
    if asked is not None and asked > case.num_cores:
        yield Told(
            f"{asked} compute threads share {case.num_cores} cores",
            f"--set engine.num_workers={case.num_cores}",
            ("engine.num_workers",),
        )


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
