"""Several seeds of one thing: curves on a common axis, means, and 95 % intervals of the mean.

The interval is Student's t over seeds: with few seeds it is wide, as it should be; with one there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fluxctl.telemetry.columns import Floats

_TWO_SIDED = 0.975


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: Mean; nan without a number.
        half_width: Half of its 95 % interval; nan with fewer than two numbers.
        num: How many numbers.
    """

    mean: float
    half_width: float
    num: int

    def text(self, number: str, unit: str = "") -> str:
        """The mean in a format, with its half width where there is one."""
        if math.isnan(self.mean):
            return "-"
        half = "" if math.isnan(self.half_width) else f" ± {format(self.half_width, number)}"
        return f"{format(self.mean, number)}{half}{unit}"


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % t-interval of the numbers that are finite."""
    known = np.array([value for value in values if math.isfinite(value)], dtype=np.float64)
    if not len(known):
        return Estimate(math.nan, math.nan, 0)
    return Estimate(float(known.mean()), float(half_widths(known[:, None])[0]), len(known))


def half_widths(values: Floats) -> Floats:
    """Half widths of the 95 % t-interval of the mean.

    Args:
        values: Shape ``(num_seeds, n)``.

    Returns:
        Shape ``(n,)``; nan with fewer than two seeds.

    Source:
        Student, The probable error of a mean, Biometrika 6, 1908.
    """
    num = len(values)
    if num < 2:
        return np.full(values.shape[1], np.nan)
    return np.asarray(stdtrit(num - 1, _TWO_SIDED) * values.std(axis=0, ddof=1) / math.sqrt(num))


@dataclass(frozen=True, slots=True)
class Band:
    """The mean of several curves, with its interval.

    Attributes:
        x: Where any of them changes, within what all of them cover, shape ``(n,)``.
        mean: Mean, shape ``(n,)``.
        half_width: Half of its 95 % interval, shape ``(n,)``.
    """

    x: Floats
    mean: Floats
    half_width: Floats


def band(curves: Sequence[tuple[Floats, Floats]]) -> Band | None:
    """The band of several curves; None if fewer than two of them have a part in common.

    Between two of its points a curve has the value of the earlier one: a model is as good as its last evaluation says.

    Args:
        curves: Pairs of x, not decreasing, and y.
    """
    known = [(x[keep], y[keep]) for x, y in curves if (keep := np.isfinite(x) & np.isfinite(y)).any()]
    if len(known) < 2:
        return None
    first, last = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    grid = np.unique(np.concatenate([x for x, _ in known]))
    grid = grid[(grid >= first) & (grid <= last)]
    if not len(grid):
        return None
    held = np.stack([y[np.searchsorted(x, grid, side="right") - 1] for x, y in known])
    return Band(grid, held.mean(axis=0), half_widths(held))
