"""Whether a controller moves the aggregation goal alike."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import skip, windows

MOST: Final = 0.2


@rung(
    "D36",
    "DK1",
    "agg_goal_trajectory",
    stage="3p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Does the controller set the aggregation goal K to the same values?",
    broken="The controller saw other inputs in the simulation, so its decisions are not those of the real system.",
    needs=("D66",),
)
def agg_goal_trajectory(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of K over the cycles."""
    first, second = (window.numbers("agg_round", "goal") for window in windows(left, right, options))
    if len(np.unique(np.concatenate([first, second]))) <= 1:
        return skip("the aggregation goal K is fixed in both runs")
    return judged_ks(first, second, MOST, "aggregation goal K", step=1.0)
