"""The numbers of the MobiPerf generator, fitted to the published statistics of 300 phones over 6.21 days.

They were found by minimising the distance between those statistics and the generator's, over several seeds. Spreads
are (median, spread below, spread above) of a normal score, so that a skewed population needs no other family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fluxctl.world.availability.durations import Durations

HORIZON_S: Final = 536_544  # 6.21 days, as measured
_LOG_MINUTE, _LOG_HOUR, _LOG_NINE_HOURS = 1.78, 3.5, 4.5  # decimal logarithms of seconds, roughly

_CHARGES: Final = Durations(
    short=((0.0, 1.0), (0.058, 1.5), (0.132, 2.5), (0.242, 22.0), (0.321, 60.0), (0.406, 300.0)),
    log_sd_below=0.813,
    log_sd_above=0.882,
    longest_s=135_855.0,
)
_GAPS: Final = Durations(
    short=((0.0, 1.0), (0.08, 1.5), (0.297, 2.5), (0.355, 12.0), (0.438, 60.0), (0.537, 400.0)),
    log_sd_below=0.952,
    log_sd_above=1.15,
    longest_s=float(HORIZON_S),
)


class Variant(StrEnum):
    """What an idle, uncharged phone may do."""

    TWO_STATE = "2st"  # nothing
    EVAL_50 = "3st_50"  # evaluate while its battery is above 50 %
    EVAL_75 = "3st_75"


@dataclass(frozen=True)
class Population:
    """How habits spread over phones; medians and two-sided spreads of normal scores."""

    log_cycles: tuple[float, float, float] = (
        2.564,
        0.685,
        1.027,
    )  # of charges in a horizon: median, sd below, sd above
    logit_duty: tuple[float, float, float] = (-1.968, 0.743, 0.798)  # of the share of time spent charging
    charge_swing: float = 0.22
    gap_swing: float = 0.68
    peak_s: float = 0.0  # time of day at which most phones begin to charge
    charges: Durations = _CHARGES
    gaps: Durations = _GAPS


@dataclass(frozen=True)
class Battery:
    """Whether a gap begins above a threshold, and for how long it stays there.

    Args:
        scores: Normal score of "above the threshold at the start" for gaps of a minute, an hour and nine hours.
        drain_scale: Factor of the drain time.
    """

    scores: tuple[float, float, float]
    drain_scale: float

    def score(self, gap_s: int) -> float:
        """Score for a gap: linear in the logarithm of its length, constant outside."""
        minute, hour, nine_hours = self.scores
        log_gap = math.log10(gap_s)
        if log_gap < _LOG_HOUR:
            return hour - (hour - minute) * min(1.0, (_LOG_HOUR - log_gap) / (_LOG_HOUR - _LOG_MINUTE))
        return hour + (nine_hours - hour) * min(1.0, (log_gap - _LOG_HOUR) / (_LOG_NINE_HOURS - _LOG_HOUR))


@dataclass(frozen=True)
class Draining:
    """What all thresholds share. Drain times are log-normal: (mean, sd) of the logarithm of seconds."""

    start_habit: float = 0.428  # weight of the phone's habit in the score at the start
    far: tuple[float, float] = (10.483, 0.424)  # from a full battery
    far_habit: float = 0.696  # weight of the phone's habit in it
    near: tuple[float, float] = (3.25, 3.663)  # from just above the threshold
    near_share: float = 0.364
    near_below_s: float = 34_200.0  # nobody leaves for longer than this with a battery just above
    recharge_share: float = 0.17  # of the stretches below the threshold that a short charge interrupts
    recharge_after_s: float = 3_640.0  # how long such a stretch must be


@dataclass(frozen=True)
class Calibration:
    """All numbers of the generator."""

    population: Population = Population()
    draining: Draining = Draining()
    eval_50: Battery = Battery((-0.688, 0.218, 2.723), 1.0)
    eval_75: Battery = Battery((-1.351, 0.47, 0.852), 0.467)

    def battery(self, variant: Variant) -> Battery | None:
        """The battery rule of a variant; None if nobody evaluates."""
        return {Variant.TWO_STATE: None, Variant.EVAL_50: self.eval_50, Variant.EVAL_75: self.eval_75}[variant]
