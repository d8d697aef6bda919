"""How many clients are in each state of availability, as the aggregator sees it when it selects."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, windows
from fluxctl.telemetry.columns import AbsentField, Floats
from fluxctl.types import Availability

MOST: Final = 0.20


@rung(
    "D13",
    "A1",
    "avail_composition",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are as many clients available, able to evaluate only, and away in both runs?",
    broken="Clients come and go differently in the two runs, so the simulated population is not the real one.",
)
def avail_composition(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean number of clients in each state, over selections: the worst relative difference."""
    real, sim = windows(left, right, options)
    counts = [_mean_counts(window) for window in (real, sim)]
    n = min(int(window.selections().sum()) for window in (real, sim))
    threshold = f"<= {MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} selections, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    gaps = {state: relative(counts[0][state], counts[1][state]) for state in counts[0]}
    worst = max(gaps, key=gaps.__getitem__)
    return Finding(
        Status.PASS if gaps[worst] <= MOST else Status.FAIL,
        gaps[worst],
        threshold,
        n,
        f"clients in state {worst} per selection: {counts[0][worst]:.4g} and {counts[1][worst]:.4g}",
        {"mean_counts": [counts[0], counts[1]], "relative": gaps},
    )


def _mean_counts(window: Window) -> dict[str, float]:
    """Mean count by state; an event names only the states that occur in it.

    Raises:
        AbsentField: If no selection tells the composition.
    """
    within = window.selections()
    columns: dict[str, Floats] = {}
    for state in Availability:
        try:
            columns[state.value] = window.run["selection"].numbers(f"avail_composition.{state.value}")[within]
        except AbsentField:
            columns[state.value] = np.full(int(within.sum()), np.nan)
    told = ~np.all([np.isnan(column) for column in columns.values()], axis=0)
    if not told.any():
        raise AbsentField("selection.avail_composition")
    return {state: float(np.nan_to_num(column[told]).mean()) for state, column in columns.items()}
