"""How the wall delivered what the logical order committed.

Under the logical order both runs decide alike whatever the wall does, so exact rungs say nothing about the timing
model. These two numbers stand beside every verdict to keep the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.types import JSON, NS_PER_S


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Physical arrivals of one run on the wall clock.

    Attributes:
        label: Which run.
        num_inversions: Pairs of updates of one cohort that arrived in the other order than they were due; None if the
            events do not say.
        num_pairs: Pairs of updates that were committed together.
        worst_lateness_s: Longest time from an update's due time to its arrival, in engine seconds; None if unknown.
    """

    label: str
    num_inversions: int | None
    num_pairs: int
    worst_lateness_s: float | None

    @property
    def flip_frac(self) -> float | None:
        """Share of pairs that arrived in the other order."""
        return None if self.num_inversions is None or not self.num_pairs else self.num_inversions / self.num_pairs

    def to_json(self) -> dict[str, JSON]:
        """The numbers as JSON."""
        return {
            "run": self.label,
            "num_inversions": self.num_inversions,
            "num_pairs": self.num_pairs,
            "flip_frac": self.flip_frac,
            "worst_lateness_s": self.worst_lateness_s,
        }

    def sentence(self) -> str:
        """The numbers for a person."""
        if self.num_inversions is None:
            return f"{self.label} run: the events do not say how updates arrived"
        share = "" if self.flip_frac is None else f" of {self.num_pairs:,} pairs ({self.flip_frac:.2%})"
        late = "unknown" if self.worst_lateness_s is None else f"{self.worst_lateness_s * 1e3:,.1f} ms"
        return (
            f"{self.label} run: {self.num_inversions:,} arrival inversions{share}, worst lateness {late} of engine time"
        )


def arrivals_of(*runs: Observed) -> tuple[Arrivals, ...]:
    """How updates arrived in those of the runs that were on the wall clock."""
    return tuple(_arrivals(run) for run in runs if run.is_real)


def _arrivals(run: Observed) -> Arrivals:
    cycles = run.cycles
    inversions = int(np.nansum(cycles.numbers("wall.inversions"))) if "wall.inversions" in cycles else None
    sizes = cycles.lists("contributing_trainers").lengths if "contributing_trainers" in cycles else np.zeros(0, int)
    return Arrivals(run.label, inversions, int((sizes * (sizes - 1) // 2).sum()), _worst_lateness_s(run))


def _worst_lateness_s(run: Observed) -> float | None:
    """Measured against the time of sending that was due: an update withheld by its client is not late."""
    sends = run["task_send"]
    if "wall.send_s" not in sends or "send_ns" not in sends:
        return None
    lateness = sends.numbers("wall.send_s") - sends.numbers("send_ns") / NS_PER_S
    known = lateness[~np.isnan(lateness)]
    return float(known.max()) if len(known) else None
