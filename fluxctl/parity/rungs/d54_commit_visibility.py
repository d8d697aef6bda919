"""Whether updates wait equally long for their commits."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2
MOST_MEAN_S: Final = 2.0
NEGLIGIBLE_S: Final = 0.1


@rung(
    "D54",
    "U6",
    "commit_visibility",
    stage="6",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Does an update wait equally long from when it is visible to its commit?",
    broken="Updates are committed earlier or later after their arrival: staleness and waiting times are off.",
    needs=("D10",),
    is_timed=True,
)
def commit_visibility(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions and means of engine seconds from due time to commit, over all contributions."""
    first, second = (window.pooled("agg_round", "visibility_lag_s") for window in windows(left, right, options))
    return judged_ks(
        first, second, MOST, "wait for the commit", negligible=NEGLIGIBLE_S, max_difference=MOST_MEAN_S, unit="s"
    )
