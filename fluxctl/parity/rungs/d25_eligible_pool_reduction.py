"""By how many clients the pool is smaller than the population when the aggregator selects."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, skip, windows

MOST: Final = 0.25


@rung(
    "D25",
    "eligible_pool_reduction",
    "eligible_pool_reduction",
    stage="2",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Does being busy or away take as many clients out of the pool in both runs?",
    broken="One run's pool shrinks more: its clients are busy, or away, for longer than in the other.",
)
def eligible_pool_reduction(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative difference of the mean of (candidates - eligible) over selections."""
    pair = windows(left, right, options)
    missing = [_missing(window) for window in pair]
    if None in missing:
        return skip("no selection within the compared bins")
    means = [float(value) for value in missing if value is not None]
    gap = relative(*means)
    return Finding(
        Status.PASS if gap <= MOST else Status.WARN,
        gap,
        f"<= {MOST:g}",
        min(int(window.selections().sum()) for window in pair),
        f"{means[0]:.4g} and {means[1]:.4g} clients cannot be asked, on average",
        {"mean_missing": means},
    )


def _missing(window: Window) -> float | None:
    table, within = window.run["selection"], window.selections()
    gaps = (table.numbers("num_candidates") - table.numbers("num_eligible"))[within]
    gaps = gaps[np.isfinite(gaps)]
    return float(gaps.mean()) if len(gaps) else None
