"""Whether updates of clients that could not be reached are delivered after they were ready."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip


@rung(
    "D57",
    "C.2",
    "withheld_delivery",
    stage="6",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Is an update that had to wait for its client to be reachable delivered after it was ready?",
    broken="Updates arrived before they existed: the wait for unavailable clients is wrong.",
)
def withheld_delivery(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Withheld updates that are delivered before they are due, or whose delay is negative."""
    num_wrong, nums = 0, []
    for run in (left, right):
        events = run["withheld_delivery"]
        nums.append(len(events))
        if len(events):
            is_early = events.ints("delivery_ns") < events.ints("due_ns")
            num_wrong += int(np.count_nonzero(is_early | (events.numbers("delay_s") < 0)))
    if not any(nums):
        return skip("no update had to wait for its client to be reachable")
    return Finding(
        Status.FAIL if num_wrong else Status.PASS,
        float(num_wrong),
        "= 0 too early",
        min(nums),
        f"{num_wrong} of {sum(nums)} updates that had to wait were delivered before they were ready",
        {run.label: num for run, num in zip((left, right), nums, strict=True)},
    )
