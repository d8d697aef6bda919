"""Where a curve ends: at its peak, at the plateau of its loss, or where the run ended.

What follows a peak is mostly waiting for the window of a stop rule, and stretches the axis. A run that never learned
has no peak worth the name, so it is shown whole.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np

from fluxctl.telemetry.series import Evaluations

LEARNED_GAIN: Final = 0.05  # accuracy over the first evaluation; less than that is noise of a test set
PLATEAU_FRAC: Final = 0.01  # share of the whole fall of the loss that later evaluations may still gain


class Cut(StrEnum):
    """What ends a curve."""

    PEAK_ACC = "peak_acc"
    LOSS_PLATEAU = "loss_plateau"
    NONE = "none"


def has_learned(evaluations: Evaluations) -> bool:
    """Whether the model was ever clearly better than at the start."""
    known = evaluations.accuracy[np.isfinite(evaluations.accuracy)]
    return len(known) >= 2 and float(known.max() - known[0]) >= LEARNED_GAIN


def num_shown(evaluations: Evaluations, cut: Cut) -> int:
    """How many evaluations a figure shows, from the first on."""
    if cut is Cut.NONE or not has_learned(evaluations):
        return len(evaluations)
    if cut is Cut.PEAK_ACC:
        peak = evaluations.peak
        return len(evaluations) if peak is None else peak + 1
    return _plateau(evaluations)


def _plateau(evaluations: Evaluations) -> int:
    """The first evaluation after which the lowest loss falls by less than :data:`PLATEAU_FRAC` of its whole fall."""
    losses = np.where(np.isfinite(evaluations.loss), evaluations.loss, np.inf)
    lowest = np.minimum.accumulate(losses)
    if not np.isfinite(lowest[-1]) or not np.isfinite(lowest[0]):
        return len(evaluations)
    bound = lowest[-1] + PLATEAU_FRAC * (lowest[0] - lowest[-1])
    return int(np.argmax(lowest <= bound)) + 1
