"""Jumps of engine time over spans in which nobody could train."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import engine_steps_s, skip, windows

ALWAYS: Final = "syn_0"
JUMP: Final = 5.0  # times the mean advance
FEWEST: Final = 3


@rung(
    "D24",
    "starvation_advance",
    "starvation_advance",
    stage="2",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Does time jump over spans without available clients as often in both runs?",
    broken="One run waits for clients where the other finds some: their populations differ in time.",
)
def starvation_advance(left: Observed, right: Observed, options: Options) -> Finding:
    """Number of cycles that took more than five times the mean one, in each run."""
    pair = windows(left, right, options)
    if all(window.run.config is not None and window.run.config.availability.trace == ALWAYS for window in pair):
        return skip("all clients are always available")
    steps = [engine_steps_s(window) for window in pair]
    n = min(map(len, steps))
    if n < FEWEST:
        return skip(f"{n} steps between cycles; this needs {FEWEST}")
    jumps = [step[step > JUMP * step.mean()] for step in steps]
    counts = [len(jump) for jump in jumps]
    longest = [float(np.max(jump, initial=0.0)) for jump in jumps]
    return Finding(
        Status.PASS if counts[0] == counts[1] else Status.WARN,
        float(abs(counts[0] - counts[1])),
        "equally many",
        n,
        f"{counts[0]} and {counts[1]} jumps of over {JUMP:g} mean advances, the longest {max(longest):.4g} s",
        {"jumps": counts, "longest_s": longest},
    )
