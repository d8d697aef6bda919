"""When a run is over, and how it ended."""

from fluxctl.policies.stopping import budgets, divergence, stall, target
from fluxctl.policies.stopping.base import (
    STOP_RULES,
    EvalPoint,
    StopConditions,
    StopDecision,
    StopMonitor,
    StopState,
    StopView,
    replay,
)

__all__ = [
    "STOP_RULES",
    "EvalPoint",
    "StopConditions",
    "StopDecision",
    "StopMonitor",
    "StopState",
    "StopView",
    "budgets",
    "divergence",
    "replay",
    "stall",
    "target",
]
