"""Whether as many updates are kept from earlier iterations of a bin."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.25


@rung(
    "D64",
    "V3",
    "cached_v_pool",
    stage="6p",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Does a cycle find as many updates that earlier iterations of its bin have left?",
    broken="Updates of earlier iterations are lost or kept too long, so the gate judges another pool.",
    needs=("D62",),
)
def cached_v_pool(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of the pool's size before each cycle's own updates."""
    first, second = (window.numbers("agg_round", "cached_pool_size") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "updates kept from earlier iterations", step=1.0, min_samples=1)
