"""Whether the gate lets as many cycles pass."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.cohorts import is_forced
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats

MOST: Final = 0.05


@rung(
    "D66",
    "V5",
    "variance_pass_ratio",
    stage="6p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is the variance under its bound in the same share of cycles?",
    broken="The gate passes more or fewer cycles: the noise of the estimate is not reproduced.",
    needs=("D62", "D63"),
)
def variance_pass_ratio(left: Observed, right: Observed, options: Options) -> Finding:
    """Difference of the shares of cycles with a variance up to the threshold, forced commits left out."""
    if not (left.has_cadence and right.has_cadence):
        return skip("the events carry no cadence: no bins, or no reasons of commits")
    passes = [_passes(window) for window in windows(left, right, options)]
    if not all(map(len, passes)):
        return skip("a run has no cycle with a variance that was not committed by force")
    shares = [float(some.mean()) for some in passes]
    evidence = Evidence.of(passes, f"{shares[0]:.1%} and {shares[1]:.1%} of the cycles pass the gate")
    return judged_bounds([Bound("", abs(shares[0] - shares[1]), MOST)], evidence)


def _passes(window: Window) -> Floats:
    """1 for each cycle that passes, 0 for each that does not."""
    cycles = window.run.cycles
    variances, thresholds = cycles.numbers("var"), cycles.numbers("var_threshold")
    counts = window.in_cycle & ~is_forced(window.run) & ~np.isnan(variances)
    return np.asarray((variances <= thresholds)[counts], dtype=np.float64)
