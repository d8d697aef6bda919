"""How long a phone stays in a state: flicker or a heavy tail, on a clock that depends on the time of day.

Measured durations are bimodal. About half of them are over within minutes and look alike on all phones: an unstable
plug or network. The rest follow a heavy, skewed log-normal whose location belongs to the phone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]

DAY_S: Final = 86_400.0
_PER_RADIAN_S: Final = DAY_S / (2 * math.pi)
_CLOSE_ENOUGH_S: Final = 0.01  # durations are whole seconds


@dataclass(frozen=True)
class Durations:
    """Distribution of the durations of one state.

    Args:
        short: (cumulative share of all durations, seconds) of the short ones, which no habit changes; between these
            points the logarithm of the duration is linear in the share. The last share is that of all short ones.
        log_sd_below: Log-spread of a phone's long durations below their median.
        log_sd_above: The same above it.
        longest_s: No duration exceeds it.
    """

    short: tuple[tuple[float, float], ...]
    log_sd_below: float
    log_sd_above: float
    longest_s: float

    @property
    def short_share(self) -> float:
        """Share of the short durations."""
        return self.short[-1][0]

    def draw_s(self, uniforms: Floats, mean_s: float) -> Floats:
        """Invert the distribution.

        Args:
            uniforms: In [0, 1), any shape. Below ``short_share`` they give short durations.
            mean_s: The phone's mean duration, short ones counted as nothing.

        Returns:
            Seconds, same shape.
        """
        shares, seconds = zip(*self.short, strict=True)
        short = np.exp(np.interp(uniforms, shares, np.log(seconds)))
        share = np.clip((uniforms - self.short_share) / (1 - self.short_share), 1e-9, 1 - 1e-9)
        return np.where(uniforms < self.short_share, short, self.long_s(share, mean_s))

    def long_s(self, shares: Floats, mean_s: float) -> Floats:
        """Quantiles of the long durations, seconds; arguments as for :meth:`draw_s`."""
        normals = ndtri(shares)
        spread = np.where(normals < 0, self.log_sd_below * normals, self.log_sd_above * normals)
        median_s = mean_s / (1 - self.short_share) / self._mean_over_median()
        return np.minimum(median_s * np.exp(spread), self.longest_s)

    def _mean_over_median(self) -> float:
        below, above = self.log_sd_below, self.log_sd_above
        return math.exp(above**2 / 2) * float(ndtr(above)) + math.exp(below**2 / 2) * float(ndtr(-below))


def after_s(start_s: float, duration_s: float, swing: float, peak_s: float) -> float:
    """When a duration is over that runs on a clock of rate ``1 + swing cos(2 pi (t - peak) / day)``.

    The rate is 1 on average, so a long duration keeps its length and only its end moves: towards the peak for a
    positive swing, away from it for a negative one.

    Args:
        start_s: Start.
        duration_s: Duration on that clock, at least 0.
        swing: In (-1, 1).
        peak_s: Time of day at which the clock is fastest.

    Returns:
        The end. Solves Kepler's equation by Newton's method, from a start at which it converges for these swings.
    """
    goal = start_s + swing * _PER_RADIAN_S * math.sin((start_s - peak_s) / _PER_RADIAN_S) + duration_s
    end = start_s + duration_s
    for _ in range(50):
        angle = (end - peak_s) / _PER_RADIAN_S
        excess = end + swing * _PER_RADIAN_S * math.sin(angle) - goal
        if abs(excess) < _CLOSE_ENOUGH_S:
            break
        end -= excess / (1 + swing * math.cos(angle))
    return end
