"""Whether the aggregator takes an update as soon as it is delivered."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.telemetry.columns import Floats
from fluxctl.types import JSON, NS_PER_S

EARLIEST_S: Final = -1.0
LATEST_S: Final = 30.0


@rung(
    "D58",
    "K11",
    "commit_promptness",
    stage="6",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Does the aggregator take a delivered update promptly, and never before its delivery?",
    broken="A delivered update was left lying, or counted before it arrived: commits carry wrong times.",
    is_timed=True,
)
def commit_promptness(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Engine seconds from the delivery of a withheld update to its taking, all of them in [-1, 30]."""
    detail: dict[str, JSON] = {}
    pooled, num = [], 0
    for run in (left, right):
        waits_s = _waits_s(run)
        pooled.append(waits_s)
        num = min(num, len(waits_s)) if detail else len(waits_s)
        detail[run.label] = {"n": len(waits_s), "max_s": float(waits_s.max()) if len(waits_s) else None}
    waits_s = np.concatenate(pooled)
    if not len(waits_s):
        return skip("no update had to wait for its client to be reachable")
    is_wrong = (waits_s < EARLIEST_S) | (waits_s > LATEST_S)
    worst_s = float(waits_s[np.abs(waits_s).argmax()])
    return Finding(
        Status.FAIL if is_wrong.any() else Status.PASS,
        worst_s,
        f"in [{EARLIEST_S:g}, {LATEST_S:g}] s",
        num,
        f"{int(is_wrong.sum())} of {len(waits_s)} updates were taken too early or too late; the worst {worst_s:.3g} s "
        "after delivery",
        detail,
    )


def _waits_s(run: Observed) -> Floats:
    events = run["withheld_delivery"]
    if not len(events):
        return np.empty(0)
    return np.asarray((events.ints("commit_ns") - events.ints("delivery_ns")) / NS_PER_S)
