"""The bins of a run as the variance gate saw them: one history of variances per bin, in commit order.

A bin number repeats every round, so a history is never keyed by it; it ends where the run committed. The last history
may be open. Shared by the variance analysis and whoever replays the gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.telemetry.columns import MISSING_INT, Kind, Table
from fluxctl.types import CommitReason

CYCLES: Final = {
    "t_ns": Kind.INT,
    "round": Kind.INT,
    "cycle_bin": Kind.INT,
    "cycle_iteration": Kind.INT,
    "goal_count": Kind.INT,
    "var": Kind.FLOAT,
    "commit_reason": Kind.LABEL,
}


@dataclass(frozen=True, slots=True)
class BinHistory:
    """One visit of a bin.

    Attributes:
        number: Commits before it: its place in the run, from 0.
        round: Passes over all bins before it.
        bin: Its number within the round.
        variances: Split-half variance after each iteration; None = not defined.
        num_updates: Updates that each iteration brought.
        reason: Why it was committed; None if the run ended before.
        end_ns: Engine time of its last cycle.
    """

    number: int
    round: int
    bin: int
    variances: tuple[float | None, ...]
    num_updates: tuple[int, ...]
    reason: CommitReason | None
    end_ns: int

    @property
    def num_iterations(self) -> int:
        """Cycles spent on it."""
        return len(self.variances)

    @property
    def lowest(self) -> float | None:
        """Lowest variance that it reached; None if none was ever defined."""
        return min((value for value in self.variances if value is not None), default=None)


def bin_histories(cycles: Table, max_bins: int | None = None) -> list[BinHistory]:
    """Cut the cycles of a run into bins.

    Args:
        cycles: The ``agg_round`` events with the fields of :data:`CYCLES`.
        max_bins: Only the first so many, for runs of different length; None = all.

    Raises:
        AbsentField: If they name no bin.
    """
    if not len(cycles):
        return []
    rounds, bins, ends = (cycles.ints(name) for name in ("round", "cycle_bin", "t_ns"))
    counts = cycles.ints("goal_count") if "goal_count" in cycles else np.zeros(len(cycles), dtype=np.int64)
    values = cycles.numbers("var") if "var" in cycles else np.full(len(cycles), np.nan)
    variances = [float(value) if np.isfinite(value) else None for value in values]
    reasons = _reasons(cycles)
    is_last = [reason is not None for reason in reasons]
    is_last[-1] = True
    histories: list[BinHistory] = []
    start = 0
    for row in np.flatnonzero(is_last).tolist():
        if len(histories) == max_bins:
            break
        span = slice(start, row + 1)
        updates = tuple(0 if count == MISSING_INT else count for count in counts[span].tolist())
        history = BinHistory(
            len(histories),
            int(rounds[row]),
            int(bins[row]),
            tuple(variances[span]),
            updates,
            reasons[row],
            int(ends[row]),
        )
        histories.append(history)
        start = row + 1
    return histories


def _reasons(cycles: Table) -> list[CommitReason | None]:
    if "commit_reason" not in cycles:
        return [None] * len(cycles)
    labels = cycles.labels("commit_reason")
    known = [CommitReason(name) for name in labels.names]
    return [None if code < 0 else known[code] for code in labels.codes.tolist()]
