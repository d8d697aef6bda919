"""Whether the aggregates that are applied are as long."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.2


@rung(
    "D68",
    "G1",
    "grad_norm",
    stage="7p",
    tier=Tier.DIST,
    role=Role.EMERGENT,
    question="Is the length of the aggregated update the same?",
    broken="The server takes longer or shorter steps, so the model learns at another pace.",
)
def grad_norm(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of the Euclidean norm of the aggregate over the commits."""
    first, second = (window.numbers("agg_round", "grad_norm") for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "norm of the aggregate")
