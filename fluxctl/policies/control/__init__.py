"""How the aggregation goal K and the concurrency C move while a run goes on."""

from fluxctl.policies.control import eligible, iterations, off, staleness, variance
from fluxctl.policies.control.base import (
    CONTROLLERS,
    CommitRecord,
    ControlDecision,
    Controller,
    ControlParams,
    ControlState,
    ControlView,
    advance,
)

__all__ = [
    "CONTROLLERS",
    "CommitRecord",
    "ControlDecision",
    "ControlParams",
    "ControlState",
    "ControlView",
    "Controller",
    "advance",
    "eligible",
    "iterations",
    "off",
    "staleness",
    "variance",
]
