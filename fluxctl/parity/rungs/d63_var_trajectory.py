"""Whether the gate's statistic behaves alike."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2
MOST_MEAN: Final = 0.02  # the distance between distributions alone forgives a shift of all values by a little


@rung(
    "D63",
    "V2",
    "var_trajectory",
    stage="6p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is the variance that the gate judges the same?",
    broken="The updates disagree with each other more or less than in the real run, so bins end at other moments.",
    needs=("D62",),
)
def var_trajectory(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions and means of the split-half variance over all cycles."""
    first, second = (window.numbers("agg_round", "var") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "variance of the estimate", max_relative=MOST_MEAN)
