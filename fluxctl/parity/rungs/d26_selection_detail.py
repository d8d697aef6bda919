"""Whether selections are as large, and made with as many clients in flight."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import skip, windows

MOST: Final = {"num_chosen": 0.05, "in_flight": 0.15}


@rung(
    "D26",
    "S3/4",
    "selection_detail",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are as many clients chosen at a time, with as many slots already in use?",
    broken="Slots are filled differently: the two runs do not keep the same number of clients at work.",
    needs=("D14",),
)
def selection_detail(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative differences of the mean number chosen and of the mean number in flight before a selection."""
    pair = windows(left, right, options)
    rows = [np.flatnonzero(window.selections()) for window in pair]
    if not all(map(len, rows)):
        return skip("a run has no selection within the bins that both completed")
    bounds, told = [], []
    for path, limit in MOST.items():
        means = [float(window.numbers("selection", path).mean()) for window in pair]
        bounds.append(Bound(f"{path} rel", relative(*means), limit))
        told.append(f"{path} {means[0]:.3g} and {means[1]:.3g}")
    evidence = Evidence.of(rows, f"means: {', '.join(told)}", {bound.name: bound.value for bound in bounds})
    return judged_bounds(bounds, evidence)
