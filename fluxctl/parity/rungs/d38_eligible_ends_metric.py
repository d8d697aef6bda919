"""Whether controllers see as many clients that could be asked."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2


@rung(
    "D38",
    "DK3",
    "eligible_ends_metric",
    stage="3p",
    tier=Tier.DIST,
    role=Role.CONTROL,
    question="At the end of a cycle, could as many clients be asked?",
    broken="What a controller looks at, the number of clients that could be asked, differs between the runs.",
)
def eligible_ends_metric(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of the number of eligible clients at the end of each cycle."""
    first, second = (window.numbers("agg_round", "num_eligible") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "eligible clients at the end of a cycle", step=1.0)
