"""Availability like that of the MobiPerf phones: generated to published statistics, since the data cannot be shipped.

A phone alternates between charging (it can train) and not. While it is not, its battery decides whether it may still
evaluate: above a threshold it may. So there is one alternation per client, the same for all variants, and a variant
is a rule that cuts the gaps between charges. The thresholds are nested: whoever may evaluate above 75 % may above
50 %.

A phone's habits (how often and how much it charges, how full its battery tends to be) come from a low-discrepancy
sequence, shifted by the seed: any few hundred consecutive clients then have the published spread of habits, and a
small population is not at the mercy of three extreme phones. The alternation starts in its steady state, so the first
minutes are like any others. What the fit reaches is listed in ``docs/experiments.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import expit, ndtr, ndtri

from fluxctl.types import NS_PER_S, Availability, ClientId, Ns
from fluxctl.world.availability.durations import Durations, Floats, after_s
from fluxctl.world.availability.recorded import RecordedTrace
from fluxctl.world.availability.timeline import Exhaustion, Timeline
from fluxctl.world.seeds import stream

HORIZON_S: Final = 536_544  # 6.21 days, as measured
_BLOCK: Final = 64  # charges drawn at once
_CANDIDATES: Final = 32  # of the length-biased state at time 0

# 1 / g, 1 / g^2, 1 / g^3 for the root g of g^4 = g + 1: the generalised golden ratio in three dimensions
_STEPS: Final = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)


class Variant(StrEnum):
    """What an idle, uncharged phone may do."""

    TWO_STATE = "2st"  # nothing
    EVAL_50 = "3st_50"  # evaluate while its battery is above 50 %
    EVAL_75 = "3st_75"


@dataclass(frozen=True)
class Population:
    """How habits spread over phones; medians and two-sided spreads of normal scores."""

    log_cycles: tuple[float, float, float] = (2.60, 0.60, 1.03)  # of charges in a horizon: median, sd below, sd above
    logit_duty: tuple[float, float, float] = (-1.94, 0.70, 0.82)  # of the share of time spent charging
    day_swing_charge: float = 0.20
    day_swing_gap: float = 0.62
    peak_s: float = 0.0  # time of day at which most phones begin to charge
    charges: Durations = Durations(
        ((0.0, 1.0), (0.055, 1.5), (0.127, 2.5), (0.235, 22.0), (0.305, 60.0), (0.40, 300.0)), 0.85, 0.85, 135_855.0
    )
    gaps: Durations = Durations(
        ((0.0, 1.0), (0.08, 1.5), (0.30, 2.5), (0.355, 12.0), (0.435, 60.0), (0.52, 400.0)), 0.9, 1.0, 536_544.0
    )


@dataclass(frozen=True)
class Battery:
    """Whether a gap begins above the threshold, and for how long it stays there.

    Args:
        start_scores: Normal score of "above the threshold at the start" for gaps of a minute, an hour and nine
            hours; linear in the logarithm of the gap between these.
        drain_scale: Factor of the drain time.
    """

    start_scores: tuple[float, float, float]
    drain_scale: float


@dataclass(frozen=True)
class Draining:
    """What all thresholds share."""

    start_habit: float = 0.42  # weight of the phone's habit in the score
    log_drain: float = 10.4
    drain_habit: float = 0.6
    drain_sd: float = 0.9
    near_share: float = 0.2  # of gaps that begin just above the threshold
    log_near: float = 6.5
    near_sd: float = 1.5
    recharge_share: float = 0.2  # of stretches below the threshold that a short charge away from home ends


@dataclass(frozen=True)
class Calibration:
    """All numbers of the generator."""

    population: Population = Population()
    draining: Draining = Draining()
    eval_50: Battery = Battery((-0.48, -0.93, 1.62), 1.0)
    eval_75: Battery = Battery((-1.20, -0.19, 0.33), 0.46)

    def battery(self, variant: Variant) -> Battery | None:
        """The battery rule of a variant; None if nobody evaluates."""
        return {Variant.TWO_STATE: None, Variant.EVAL_50: self.eval_50, Variant.EVAL_75: self.eval_75}[variant]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """One charge or one gap; ``uniforms`` decide about the battery."""

    start_s: int
    end_s: int
    is_charge: bool
    uniforms: Floats


def mobiperf_trace(
    seed: int, variant: Variant, exhaustion: Exhaustion, calibration: Calibration | None = None
) -> RecordedTrace:
    """A trace whose clients are generated when they are first asked for.

    Args:
        seed: The run's seed.
        variant: What an uncharged phone may do.
        exhaustion: What holds after 6.21 days.
        calibration: The numbers; None = those fitted to the published statistics.
    """
    numbers = calibration or Calibration()
    battery = numbers.battery(variant)

    def timeline(client: ClientId) -> Timeline:
        habits = _habits(seed, client)
        changes = [
            change
            for stretch in _alternation(numbers.population, seed, client, habits)
            for change in _changes(stretch, battery, numbers.draining, habits[2])
        ]
        clipped = [(max(0, start_s) * NS_PER_S, state) for start_s, state in changes]
        return Timeline.of(clipped, HORIZON_S * NS_PER_S, exhaustion)

    horizon: Ns = HORIZON_S * NS_PER_S
    return RecordedTrace(timeline, horizon, exhaustion)


@lru_cache(maxsize=8)
def _shifts(seed: int) -> tuple[float, float, float]:
    first, second, third = stream(seed, "trace_population").generator().random(3).tolist()
    return first, second, third


def _habits(seed: int, client: ClientId) -> tuple[float, float, float]:
    """Normal scores of a phone's charging frequency, duty and battery level."""
    points = [(shift + (client + 1) * step) % 1.0 for shift, step in zip(_shifts(seed), _STEPS, strict=True)]
    frequency, duty, battery = (float(ndtri(min(max(point, 1e-6), 1 - 1e-6))) for point in points)
    return frequency, duty, battery


def _spread(score: float, numbers: tuple[float, float, float]) -> float:
    median, below, above = numbers
    return median + score * (above if score > 0 else below)


def _alternation(
    population: Population, seed: int, client: ClientId, habits: tuple[float, float, float]
) -> Iterator[_Stretch]:
    """Charges and gaps until the horizon is covered; the first one may have begun before time 0."""
    duty = float(expit(_spread(habits[1], population.logit_duty)))
    cycle_s = HORIZON_S / math.exp(_spread(habits[0], population.log_cycles))
    source = stream(seed, "trace", client=client).generator()
    kinds = {
        True: (population.charges, duty * cycle_s, -population.day_swing_charge),
        False: (population.gaps, (1 - duty) * cycle_s, population.day_swing_gap),
    }
    first = source.random(5)
    is_charge = bool(first[0] < duty)
    durations, mean_s, swing = kinds[is_charge]
    # At time 0 a duration is met in proportion to its length, at a uniform place within it.
    lengths = durations.long_s((np.arange(_CANDIDATES) + first[1]) / _CANDIDATES, mean_s)
    passed = np.cumsum(lengths)
    length = float(lengths[min(int(np.searchsorted(passed, first[2] * passed[-1])), _CANDIDATES - 1)])
    now = max(1, round(after_s(0.0, length * first[3], swing, population.peak_s)))
    yield _Stretch(round(now - length), now, is_charge, source.random(4))
    while now < HORIZON_S:
        uniforms = source.random((_BLOCK, 6))
        drawn = {kind: kinds[kind][0].draw_s(uniforms[:, int(kind)], kinds[kind][1]) for kind in (False, True)}
        for index in range(_BLOCK):
            for _ in range(2):
                is_charge = not is_charge
                durations, mean_s, swing = kinds[is_charge]
                duration_s = float(drawn[is_charge][index])
                is_short = uniforms[index, int(is_charge)] < durations.short_share
                end = now + duration_s if is_short else after_s(now, duration_s, swing, population.peak_s)
                start, now = now, max(now + 1, round(end))
                yield _Stretch(start, now, is_charge, uniforms[index, 2:])
                if now >= HORIZON_S:
                    return


def _changes(
    stretch: _Stretch, battery: Battery | None, draining: Draining, habit: float
) -> Iterator[tuple[int, Availability]]:
    """Cut a stretch into states: a charge trains, a gap evaluates while the battery is above the threshold."""
    if stretch.is_charge:
        yield stretch.start_s, Availability.AVL_TRAIN
        return
    if battery is None:
        yield stretch.start_s, Availability.UN_AVL
        return
    at, end = stretch.start_s, stretch.end_s
    above, drain, recharge, place = stretch.uniforms.tolist()
    log_gap = math.log10(end - at)
    score = float(np.interp(log_gap, (1.78, 3.5, 4.5), battery.start_scores)) + draining.start_habit * habit
    drain_s = max(1, round(battery.drain_scale * _drain_s(draining, drain, habit)))
    if above < ndtr(score):
        yield at, Availability.AVL_EVAL
        at += drain_s
    if at >= end:
        return
    yield at, Availability.UN_AVL
    if end - stretch.start_s > 60 and recharge < draining.recharge_share:
        at += round((end - at) * place)
        yield at, Availability.AVL_EVAL
        if at + drain_s < end:
            yield at + drain_s, Availability.UN_AVL


def _drain_s(draining: Draining, uniform: float, habit: float) -> float:
    near = draining.near_share
    if uniform < near:
        return math.exp(draining.log_near + draining.near_sd * float(ndtri(max(uniform, 1e-9) / near)))
    score = float(ndtri(max(uniform - near, 1e-9) / (1 - near)))
    return math.exp(draining.log_drain + draining.drain_habit * habit + draining.drain_sd * score)
