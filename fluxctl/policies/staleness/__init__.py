"""Which late updates count, and as how old."""

from fluxctl.policies.staleness import accept, downweight, exact, round_bin
from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessPolicy, StalenessView

__all__ = [
    "STALENESS",
    "StalenessDecision",
    "StalenessPolicy",
    "StalenessView",
    "accept",
    "downweight",
    "exact",
    "round_bin",
]
