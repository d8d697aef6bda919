"""Whether engine time ever runs backwards from one commit to the next."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.telemetry.columns import Floats
from fluxctl.types import JSON

TOLERANCE_S = 1e-9


@rung(
    "D3",
    "K1",
    "sim_commit_monotone",
    stage="1",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Does engine time only move forward from one commit to the next?",
    broken="The engine committed something before what it had committed earlier: its clock cannot be trusted.",
    needs=("D2",),
)
def sim_commit_monotone(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """``engine_s`` never decreases, in the order in which the aggregator closed its cycles."""
    num_back = 0
    detail: dict[str, JSON] = {}
    for run in (left, right):
        stamps = _in_closing_order(run)
        back = np.flatnonzero(np.diff(stamps) < -TOLERANCE_S)
        num_back += len(back)
        if len(back):
            at = int(back[0])
            detail[run.label] = {"cycle": at + 1, "before_s": float(stamps[at]), "after_s": float(stamps[at + 1])}
    return Finding(
        Status.FAIL if num_back else Status.PASS,
        float(num_back),
        "= 0 steps back",
        min(len(left.cycles), len(right.cycles)),
        f"{num_back} cycles end before the one that was closed earlier" if num_back else "engine time never decreases",
        detail,
    )


def _in_closing_order(run: Observed) -> Floats:
    """Stamps in the order of the cycle counter, which does not come from a clock; in file order without one."""
    stamps = run.cycles.numbers("engine_s")
    if "cycle" in run.cycles:
        stamps = stamps[np.argsort(run.cycles.numbers("cycle"), kind="stable")]
    return stamps[np.isfinite(stamps)]
