"""Whether the concurrency moves alike."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2


@rung(
    "D37",
    "DK2",
    "dynamic_c",
    stage="3p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is the concurrency C the same over the run?",
    broken="The two runs keep different numbers of clients at work at once.",
    needs=("D66",),
)
def dynamic_c(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of C over the cycles."""
    first, second = (window.numbers("agg_round", "dynamic_c") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "concurrency C", step=1.0)
