"""Whether availability changes at the same points of a run's progress."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, windows
from fluxctl.telemetry.columns import Floats

MOST: Final = 0.20
NUM_STEPS: Final = 10


@rung(
    "D16",
    "A3",
    "avail_timebase",
    stage="2",
    tier=Tier.DIST,
    role=Role.CONTROL,
    question="Do clients become available and unavailable at the same points of both runs' progress?",
    broken="The two runs read availability on different clocks: clients leave earlier, or later, in one of them.",
    needs=("D10",),
)
def avail_timebase(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean number of eligible clients in tenths of the compared bins: the worst relative difference."""
    real, sim = windows(left, right, options)
    curves = [_curve(window) for window in (real, sim)]
    n = min(len(window.numbers("selection", "num_eligible")) for window in (real, sim))
    threshold = f"<= {MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} selections, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    both = np.flatnonzero(np.isfinite(curves[0]) & np.isfinite(curves[1]))
    gaps = [relative(float(curves[0][step]), float(curves[1][step])) for step in both]
    at = int(np.argmax(gaps))
    step = int(both[at])
    return Finding(
        Status.PASS if gaps[at] <= MOST else Status.FAIL,
        gaps[at],
        threshold,
        n,
        f"eligible clients differ most in tenth {step + 1} of the run: {curves[0][step]:.4g} and {curves[1][step]:.4g}",
        {"eligible": [[None if np.isnan(value) else float(value) for value in curve] for curve in curves]},
    )


def _curve(window: Window) -> Floats:
    """Mean number of eligible clients by tenth of the compared bins; nan where nobody selected."""
    within = window.selections()
    eligible = window.run["selection"].numbers("num_eligible")[within]
    times = window.run["selection"].ints("t_ns")[within]
    commits = window.run.cycles.ints("t_ns")[window.run.is_commit][: window.num_units]
    # Progress in bins: those committed so far, a selection at the instant of a commit being made after it.
    done = np.searchsorted(commits, times, side="right") / max(window.num_units, 1)
    step = np.minimum((done * NUM_STEPS).astype(np.int64), NUM_STEPS - 1)
    known = np.isfinite(eligible)
    sums = np.bincount(step[known], weights=eligible[known], minlength=NUM_STEPS)
    counts = np.bincount(step[known], minlength=NUM_STEPS)
    return np.asarray(np.divide(sums, counts, out=np.full(NUM_STEPS, np.nan), where=counts > 0), dtype=np.float64)
