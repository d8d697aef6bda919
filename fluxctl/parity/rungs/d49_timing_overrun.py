"""Steps that took longer than modelled, and since when."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.types import JSON

MOST: Final = 0.05  # a step in twenty: hiccups of a machine stay below, a machine that is too slow does not


@rung(
    "D49",
    "timing_overrun",
    "timing_overrun",
    stage="4",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="How many steps took longer than modelled, and from which bin on?",
    broken="From that bin on, the wall clock lags behind the model because steps take too long.",
    needs=("D47", "D48"),
    is_timed=True,
)
def timing_overrun(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Share of updates that are marked as overrun, and the first bin, counted in commits, with one."""
    shares: dict[str, float] = {}
    firsts: dict[str, JSON] = {}
    for run in (left, right):
        overran = np.flatnonzero(run.updates.ints("wall.overran") == 1)
        shares[run.label] = len(overran) / max(len(run.updates), 1)
        versions = run.updates.ints("version")[overran] if "version" in run.updates else np.array([], np.int64)
        firsts[run.label] = int(versions.min()) + 1 if len(versions) else None
    worst = max(shares, key=shares.__getitem__)
    since = f", from bin {firsts[worst]} on" if firsts[worst] is not None else ""
    return Finding(
        Status.PASS if shares[worst] <= MOST else Status.WARN,
        shares[worst],
        f"<= {MOST:g}",
        min(len(left.updates), len(right.updates)),
        f"{shares[worst]:.1%} of steps took longer than modelled ({worst}){since}",
        {"shares": dict(shares), "first_bin": firsts},
    )
