"""Whether bins take as many iterations."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import skip, windows

MOST: Final = 0.2
MOST_MEAN: Final = 0.15


@rung(
    "D62",
    "V1",
    "iter_per_data_id",
    stage="6p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Does a bin take as many iterations until it is committed?",
    broken="The gate opens earlier or later: cost and progress per bin are not those of the real run.",
    needs=("D51", "D34"),
)
def iter_per_data_id(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions and means of the number of cycles of a bin."""
    if not (left.has_cadence and right.has_cadence):
        return skip("the events carry no cadence: no bins, or no reasons of commits")
    first, second = (np.bincount(window.run.unit_of_cycle[window.in_cycle]) for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "iterations of a bin", step=1.0, max_relative=MOST_MEAN)
