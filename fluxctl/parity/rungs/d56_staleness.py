"""Whether updates are equally stale."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2
MOST_MEAN: Final = 1.0


@rung(
    "D56",
    "U3",
    "staleness",
    stage="6",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are contributions based on equally old versions of the model?",
    broken="Updates are older or newer than in the other run: the effect of staleness on learning is not reproduced.",
    needs=("D10", "D51", "D54"),
)
def staleness(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions and means of the versions that went by since dispatch; never negative."""
    first, second = (window.pooled("agg_round", "staleness") for window in windows(left, right, options))
    finding = judged_ks(first, second, MOST, "staleness in versions", step=1.0, max_difference=MOST_MEAN)
    num_negative = sum(int((sample < 0).sum()) for sample in (first, second))
    if not num_negative:
        return finding
    return Finding(
        Status.FAIL,
        float(num_negative),
        "= 0 negative",
        min(len(first), len(second)),
        f"{num_negative} contributions claim to know a version that was not there yet",
    )
