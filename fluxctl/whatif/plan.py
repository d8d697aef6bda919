"""The course of a run without training: how often it commits, who can be asked, what travels.

A run that is short enough is walked through whole, so that the plan's counts are those of a run whose bins take as many
cycles. A longer one is sampled: its time is cut into equal strata, the beginning of each is walked through, and counts
are scaled to the strata. The plan says which it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.config.model import Config
from fluxctl.data.worlds import build_world
from fluxctl.errors import ConfigError
from fluxctl.policies.stopping import StopDecision
from fluxctl.types import Ns, Verdict, ns_from_s, s_from_ns
from fluxctl.whatif.crowd import Counts, Crowd, crowd
from fluxctl.whatif.footprint import memory_bytes
from fluxctl.whatif.strata import Stretch, stretches_of
from fluxctl.whatif.stub import cycles_of_gate, even_shards, model_shape, trainable_layout
from fluxctl.whatif.walk import Setup

MAX_UPDATES: Final = 20_000
_ROWS: Final = 96
COUNTED: Final = ("updates", "cycles", "bins", "abandons", "withheld", "bytes_down", "bytes_up")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a plan is asked for.

    Args:
        until_s: How far to look, whatever the run's limits say; None = until the run would end.
        cycles_per_bin: Cycles after which a bin commits; None = what gates usually take.
        max_updates: Updates that may be walked through.
    """

    until_s: float | None = None
    cycles_per_bin: int | None = None
    max_updates: int = MAX_UPDATES


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over engine time."""

    mean: float
    p5: float
    p95: float


@dataclass(frozen=True)
class Forecast:
    """What would come of a run.

    Args:
        verdict: How it ends for want of clients, bins or time; learning may end it earlier.
        reason: Why, as the run would say.
        engine_s: When.
        is_sampled: Whether only samples of its time were walked through.
        cycles_per_bin: Cycles after which a bin commits; assumed unless the gate is off.
        num_params: Trainable parameters.
        totals: Counts from start to end, by the names of ``COUNTED``; estimates if sampled.
        in_flight: Slots in use.
        reachable: Clients that can work.
        believed: Clients that the aggregator believes to be able to.
        share_below_goal: Share of the time with fewer than K reachable clients.
        give_ups: Slots freed without an update, by reason.
        withheld_s: Mean wait of an update that was ready and could not be delivered; None without any.
        memory: Bytes by what takes them.
        rows: The course, one row per equal span: ``t_s``, ``reachable``, ``believed`` and, where it was walked through,
            the counts.
    """

    verdict: Verdict
    reason: str
    engine_s: float
    is_sampled: bool
    cycles_per_bin: int
    num_params: int
    totals: dict[str, float]
    in_flight: Spread
    reachable: Spread
    believed: Spread
    share_below_goal: float
    give_ups: dict[str, float]
    withheld_s: float | None
    memory: dict[str, int]
    rows: list[dict[str, float | None]]

    def per_hour(self, what: str) -> float:
        """A count per engine hour."""
        return self.totals[what] * 3600 / self.engine_s if self.engine_s > 0 else 0.0


def forecast(config: Config, wishes: Wishes) -> Forecast:
    """Plan a run.

    Raises:
        ConfigError: If the run would refuse its configuration, a trace or registry file included.
        UnknownNameError: If a model or trace does not exist.
    """
    if wishes.until_s is not None:
        endless = {"max_runtime_s": wishes.until_s, "max_bins": None, "max_rounds": None}
        config = config.model_copy(update={"limits": config.limits.model_copy(update=endless)})
    horizon_ns = ns_from_s(config.runtime_budget_s())
    if horizon_ns < 1:
        raise ConfigError("there is no time to look at", where="limits.max_runtime_s", hint="for example --until 6d")
    layout, world = trainable_layout(config), build_world(config)
    cycles = cycles_of_gate(config.gate, wishes.cycles_per_bin)
    setup = Setup(config, layout, world, even_shards(config), cycles, max(1, horizon_ns // _ROWS))
    stretches = stretches_of(setup, horizon_ns, wishes.max_updates)
    last = stretches[-1]
    end = _end(last.walk.end, config.runtime_budget_s(), is_limited=wishes.until_s is not None)
    people = crowd(world, config.clients.num_clients, max(1, last.until_ns))
    goal = config.aggregation.goal
    totals = {what: sum(part.total(what) for part in stretches) for what in COUNTED}
    reasons = {reason for part in stretches for reason in part.walk.tally.reasons}
    walked = sum(part.walk.tally.total("withheld") for part in stretches)
    withheld_s = sum(part.walk.tally.withheld_s for part in stretches)
    return Forecast(
        verdict=end.verdict,
        reason=end.reason,
        engine_s=s_from_ns(last.until_ns),
        is_sampled=last.cycles_per_bin is not None,
        cycles_per_bin=cycles,
        num_params=layout.num_params,
        totals=totals,
        in_flight=_slots(stretches),
        reachable=_spread(people.reachable),
        believed=_spread(people.believed),
        share_below_goal=people.share_below(goal),
        give_ups={name: sum(p.scaled(p.walk.tally.reasons[name]) for p in stretches) for name in sorted(reasons)},
        withheld_s=withheld_s / walked if walked else None,
        memory=memory_bytes(config, layout.num_params, model_shape(config.model.name).width, goal * cycles),
        rows=_rows(setup, stretches, people),
    )


def _end(end: StopDecision | None, budget_s: float, *, is_limited: bool) -> StopDecision:
    """How the run ends, where a sample does not know, and where it is the plan that looks no further."""
    if end is not None and not (is_limited and end.rule == "max_runtime"):
        return end
    used_up = f"the engine-time budget ({budget_s:g} s) is used up"
    reason = f"the plan looks no further than {budget_s:g} s" if is_limited else used_up
    return StopDecision(Verdict.COMPLETED if end is None else end.verdict, reason, rule="max_runtime")


def _spread(counts: Counts) -> Spread:
    p5, p95 = np.percentile(counts, [5, 95])
    return Spread(float(np.mean(counts)), float(p5), float(p95))


def _slots(stretches: Sequence[Stretch]) -> Spread:
    """Slots in use, weighted by time."""
    weights: Counter[int] = Counter()
    for part in stretches:
        for slots, length_ns in part.walk.tally.slots_ns.items():
            weights[slots] += round(part.scaled(length_ns))
    whole = weights.total()
    if whole == 0:
        return Spread(0.0, 0.0, 0.0)
    levels = sorted(weights)
    reached = np.cumsum([weights[level] for level in levels]) / whole
    p5, p95 = (float(levels[min(int(np.searchsorted(reached, share)), len(levels) - 1)]) for share in (0.05, 0.95))
    return Spread(sum(level * weights[level] for level in levels) / whole, p5, p95)


def _rows(setup: Setup, stretches: Sequence[Stretch], people: Crowd) -> list[dict[str, float | None]]:
    """The course up to the end, one row per span."""
    span = setup.span_ns
    rows: list[dict[str, float | None]] = []
    for index in range(-(-stretches[-1].until_ns // span)):
        start, until = index * span, (index + 1) * span
        inside = (people.t_ns >= start) & (people.t_ns < until)
        row: dict[str, float | None] = {"t_s": s_from_ns(start)}
        for name, counts in (("reachable", people.reachable), ("believed", people.believed)):
            row[name] = float(np.mean(counts[inside])) if inside.any() else None
        row |= _counts_between(stretches, index, start, until)
        rows.append(row)
    return rows


def _counts_between(stretches: Sequence[Stretch], index: int, start: Ns, until: Ns) -> dict[str, float | None]:
    """Counts of a span, scaled from the part of it that was walked through; None where that is nothing."""
    parts = [part.walk.tally for part in stretches]
    walked = sum(max(0, min(until, tally.until_ns) - max(start, tally.since_ns)) for tally in parts)
    if walked == 0:
        return dict.fromkeys(COUNTED)
    # The last span ends with the run, and is not scaled up to its whole length.
    length = min(until, stretches[-1].until_ns) - start
    factor = max(1.0, length / walked)
    row: dict[str, float | None] = {
        what: factor * sum(tally.counts[what][index] for tally in parts) for what in COUNTED
    }
    if stretches[0].cycles_per_bin is not None:
        row["bins"] = (row["cycles"] or 0.0) / stretches[0].cycles_per_bin
    return row
