"""Whether a variance threshold lies within what bins reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fluxctl.analyses.bins import BinHistory
from fluxctl.types import JSON


@dataclass(frozen=True)
class Floor:
    """Whether the threshold can be reached.

    Attributes:
        num_bins: Bins with a defined variance.
        num_reached: Bins whose variance came to the threshold or under it.
        lowest: Lowest variance of all.
        median_lowest: Median over bins of the lowest that each reached.
        projected: Iterations that the median unreached bin would need if its variance went on falling as one over the
            number of its updates; None if all reached it.
    """

    threshold: float
    num_bins: int
    num_reached: int
    lowest: float | None
    median_lowest: float | None
    projected: float | None

    @property
    def is_below(self) -> bool:
        """Whether the threshold lies below what bins reach: most of them never came to it."""
        return self.num_bins > 0 and 2 * self.num_reached < self.num_bins

    def to_json(self) -> dict[str, JSON]:
        """The numbers as JSON."""
        return {
            "threshold": self.threshold,
            "num_bins": self.num_bins,
            "num_reached": self.num_reached,
            "lowest": self.lowest,
            "median_lowest": self.median_lowest,
            "projected_iterations": self.projected,
            "is_below_reachable": self.is_below,
        }


def reachable_floor(threshold: float, histories: Sequence[BinHistory]) -> Floor:
    """Compare a threshold with the variances that bins reached."""
    lowest = [value for history in histories if (value := history.lowest) is not None]
    projected = [needed for history in histories if (needed := _projected(threshold, history)) is not None]
    return Floor(
        threshold,
        len(lowest),
        sum(value <= threshold for value in lowest),
        min(lowest, default=None),
        median(lowest) if lowest else None,
        median(projected) if projected else None,
    )


def _projected(threshold: float, history: BinHistory) -> float | None:
    """Iterations after which var ~ 1 / updates would meet the threshold, from the last value; None if it has."""
    lowest, last = history.lowest, history.variances[-1]
    if lowest is None or last is None or lowest <= threshold:
        return None
    return history.num_iterations * last / threshold
