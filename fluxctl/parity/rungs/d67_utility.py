"""Whether clients report the same utilities."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2


@rung(
    "D67",
    "U-util",
    "utility",
    stage="7",
    tier=Tier.DIST,
    role=Role.EMERGENT,
    question="Are the losses that contributors report, and so their worth to the selector, the same?",
    broken="Clients see other losses than in the real run: they train another model or other data.",
    is_gated=True,
)
def utility(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of the statistical utility of all contributions, pooled over clients."""
    first, second = (window.pooled("agg_round", "stat_utility") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "utility of a contribution")
