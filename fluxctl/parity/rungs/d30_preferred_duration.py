"""Whether the speed penalty of a utility-guided selector acts equally often."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import Window, row_maxima, skip, windows
from fluxctl.telemetry.columns import Ragged

MOST: Final = 0.2


@rung(
    "D30",
    "Sd",
    "preferred_duration",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Does the selector's penalty on slow clients act in the same share of its selections?",
    broken="The selector prefers other durations: it learned different speeds, or its pacer went another way.",
    needs=("D15",),
)
def preferred_duration(left: Observed, right: Observed, options: Options) -> Finding:
    """Shares of selections that chose a client slower than preferred, so that its score was reduced."""
    pair = windows(left, right, options)
    if any("preferred_duration_s" not in window.run["selection"] for window in pair):
        return skip("the selector prefers no duration: it is not Oort's")
    is_binding = [_is_binding(window) for window in pair]
    if not all(map(len, is_binding)):
        return skip("no selection within the bins that both runs completed knew a preferred duration")
    shares = [float(binding.mean()) for binding in is_binding]
    evidence = Evidence.of(is_binding, f"the penalty acted in {shares[0]:.1%} and {shares[1]:.1%} of the selections")
    return judged_bounds([Bound("", abs(shares[0] - shares[1]), MOST)], evidence)


def _is_binding(window: Window) -> NDArray[np.bool_]:
    """For each selection with a preferred duration: whether it chose somebody slower."""
    selections, rows = window.run["selection"], window.selections()
    preferred_s = selections.numbers("preferred_duration_s")
    slowest_s = np.full(len(selections), -np.inf)
    if "detail.duration_s" in selections:
        durations = selections.lists("detail.duration_s")
        durations_s = np.asarray(durations.values, dtype=np.float64)
        known = Ragged(np.where(np.isnan(durations_s), -np.inf, durations_s), durations.offsets)
        slowest_s = np.fmax(row_maxima(known), -np.inf)
    return np.asarray(slowest_s > preferred_s)[rows & np.isfinite(preferred_s)]
