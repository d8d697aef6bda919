"""Whether commits rest on as many updates."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2
MOST_MEAN: Final = 0.15


@rung(
    "D69",
    "G2",
    "grad_pool_size",
    stage="7p",
    tier=Tier.DIST,
    role=Role.EMERGENT,
    question="Do the cycles that commit have as many updates?",
    broken="Commits average over more or fewer clients, so their noise is another one.",
    needs=("D62", "D36"),
)
def grad_pool_size(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions and means of the number of updates in the cycles that commit."""
    first, second = (
        window.run.cycles.numbers("grad_pool_size")[window.in_cycle & window.run.is_commit]
        for window in windows(left, right, options)
    )
    return judged_ks(first, second, MOST, "updates of a committing cycle", step=1.0, max_relative=MOST_MEAN)
