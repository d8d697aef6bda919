"""When clients can be reached: traces as pure functions of (client, time), generated or imported."""

from fluxctl.world.availability.recorded import RecordedTrace, missing_clients
from fluxctl.world.availability.spec import TraceSpec, build_trace, require_clients
from fluxctl.world.availability.states import (
    AVAILABLE,
    CODES,
    STATES,
    Codes,
    States,
    TaskKind,
    eligible_states,
    is_eligible,
)
from fluxctl.world.availability.synthetic import AlwaysAvailable, SlotTrace
from fluxctl.world.availability.timeline import Exhaustion, Timeline
from fluxctl.world.availability.trace import Trace, fraction_available

__all__ = [
    "AVAILABLE",
    "CODES",
    "STATES",
    "AlwaysAvailable",
    "Codes",
    "Exhaustion",
    "RecordedTrace",
    "SlotTrace",
    "States",
    "TaskKind",
    "Timeline",
    "Trace",
    "TraceSpec",
    "build_trace",
    "eligible_states",
    "fraction_available",
    "is_eligible",
    "missing_clients",
    "require_clients",
]
