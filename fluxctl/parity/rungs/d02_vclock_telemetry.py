"""Whether cycles are stamped with engine time."""

from __future__ import annotations

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier


@rung(
    "D2",
    "K10",
    "vclock_telemetry",
    stage="0",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Does each run say at which engine time its cycles ended?",
    broken="A run has no engine time stamps, so nothing can be said about its clock.",
    needs=("D1",),
)
def vclock_telemetry(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """At least one cycle of each run carries ``engine_s``."""
    stamped = {run.label: run.cycles.num_present.get("engine_s", 0) for run in (left, right)}
    fewest = min(stamped.values())
    counts = ", ".join(f"{label} {count}" for label, count in stamped.items())
    return Finding(
        Status.PASS if fewest else Status.FAIL,
        float(fewest),
        ">= 1",
        min(len(left.cycles), len(right.cycles)),
        f"cycles stamped with engine time: {counts}",
        dict(stamped),
    )
