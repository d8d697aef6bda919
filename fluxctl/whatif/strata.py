"""The time of a run, cut into what is walked through.

A run that is short enough is one stretch. A longer one is cut into equal strata; some whole bins at the beginning of
each are walked through, and counts are scaled to the stratum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fluxctl.learn.learner import passes_of_task
from fluxctl.policies.stopping import StopDecision
from fluxctl.types import Ns, Verdict
from fluxctl.whatif.walk import Setup, Walk, sample, walk

_LEAST_STRATA, _MOST_STRATA = 4, 24
_SAMPLED_BINS: Final = 3  # at least, in each stratum; the first is not counted
_SAMPLED: Final = 0.6  # of the updates that may be walked through: filling empty slots costs extra
_SOME_CLIENTS: Final = 300  # whose durations stand for all


@dataclass(frozen=True)
class Stretch:
    """A walk, and the time that it speaks for."""

    walk: Walk
    start_ns: Ns
    until_ns: Ns
    cycles_per_bin: int | None = None  # of a sample, which begins and ends within bins; None = bins were counted

    @property
    def factor(self) -> float:
        """How much longer the time is than what was counted."""
        counted = self.walk.tally.until_ns - self.walk.tally.since_ns
        return (self.until_ns - self.start_ns) / counted if counted > 0 else 1.0

    def scaled(self, count: float) -> float:
        """A count over all of that time."""
        return count * self.factor

    def total(self, what: str) -> float:
        """How many over all of that time."""
        if what == "bins" and self.cycles_per_bin is not None:
            return self.scaled(self.walk.tally.total("cycles") / self.cycles_per_bin)
        return self.scaled(self.walk.tally.total(what))


def stretches_of(setup: Setup, horizon_ns: Ns, max_updates: int) -> list[Stretch]:
    """One stretch if the run is short enough, else one for each stratum until the run ends.

    Args:
        setup: The run.
        horizon_ns: End of its budget of engine time.
        max_updates: Updates that may be walked through.
    """
    max_bins = _bin_budget(setup)
    if _expected_updates(setup, horizon_ns, max_bins) <= max_updates:
        whole = walk(setup)
        return [Stretch(whole, 0, whole.tally.until_ns)]
    limits = setup.config.limits.model_copy(update={"max_bins": None, "max_rounds": None})
    endless = replace(setup, config=setup.config.model_copy(update={"limits": limits}))
    allowed, per_bin = round(max_updates * _SAMPLED), setup.cycles_per_bin * setup.config.aggregation.goal
    num_strata = max(_LEAST_STRATA, min(_MOST_STRATA, allowed // (_SAMPLED_BINS * per_bin)))
    found: list[Stretch] = []
    num_bins = 0.0
    for index in range(num_strata):
        start, until = (horizon_ns * number // num_strata for number in (index, index + 1))
        part = Stretch(sample(endless, start, until, allowed // num_strata), start, until, setup.cycles_per_bin)
        bins = part.total("bins")
        if max_bins is not None and num_bins + bins >= max_bins:
            return [*found, _cut(part, (max_bins - num_bins) / bins, max_bins)]
        num_bins += bins
        if part.walk.end is not None and part.walk.end.rule == "starved":
            return [*found, replace(part, until_ns=max(start + 1, part.walk.tally.until_ns))]
        found.append(part)
    return found


def _bin_budget(setup: Setup) -> int | None:
    """Most bins that the run may commit."""
    limits = setup.config.limits
    budgets = [limits.max_bins, None if limits.max_rounds is None else limits.max_rounds * setup.shards.max_bins]
    return min((budget for budget in budgets if budget is not None), default=None)


def _expected_updates(setup: Setup, horizon_ns: Ns, max_bins: int | None) -> float:
    """About how many updates the run would take in, if clients were always there."""
    config, some = setup.config, range(min(_SOME_CLIENTS, setup.config.clients.num_clients))
    passes = passes_of_task(config.step, config.data.batch_size)
    mean_ns = sum(setup.world.delays.task_duration_ns(client, passes) for client in some) / len(some)
    by_time = config.aggregation.concurrency * horizon_ns / mean_ns
    return by_time if max_bins is None else min(by_time, max_bins * setup.cycles_per_bin * config.aggregation.goal)


def _cut(part: Stretch, share: float, max_bins: int) -> Stretch:
    """The part of a stretch up to the last bin of the budget."""
    end = StopDecision(Verdict.COMPLETED, f"the bin budget ({max_bins}) is used up", rule="max_bins")
    length_ns = round((part.until_ns - part.start_ns) * share)
    return replace(part, walk=replace(part.walk, end=end), until_ns=part.start_ns + max(1, length_ns))
