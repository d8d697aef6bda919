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
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from fluxctl.types import NS_PER_S, Availability, ClientId
from fluxctl.world.availability.calibration import HORIZON_S, Battery, Calibration, Draining, Population, Variant
from fluxctl.world.availability.durations import Durations, Floats, after_s
from fluxctl.world.availability.recorded import RecordedTrace
from fluxctl.world.availability.timeline import Exhaustion, Timeline
from fluxctl.world.seeds import stream

_BLOCK: Final = 64  # charges drawn at once
_CANDIDATES: Final = 32  # for the length of what goes on at time 0

# 1 / g, 1 / g^2, 1 / g^3 for the root g of g^4 = g + 1: the generalised golden ratio in three dimensions
_STEPS: Final = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)


class _Fate(NamedTuple):
    """What is drawn for the battery in one gap."""

    start_score: float  # normal; the battery begins above the threshold if this is below the gap's score
    drain_s: float  # at drain scale 1
    long_drain_s: float  # the same in a long gap
    recharge: float  # uniform
    place: float  # uniform


class _Stretch(NamedTuple):
    """One charge or one gap, in whole seconds."""

    start_s: int
    end_s: int
    is_charge: bool
    fate: _Fate


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
            (max(0, start_s) * NS_PER_S, state)
            for stretch in _alternation(numbers, seed, client, habits)
            for start_s, state in _changes(stretch, battery, numbers.draining, habits.battery)
        ]
        return Timeline.of(changes, HORIZON_S * NS_PER_S, exhaustion)

    return RecordedTrace(timeline, HORIZON_S * NS_PER_S, exhaustion)


class _Habits(NamedTuple):
    """Normal scores of a phone among all phones."""

    frequency: float
    duty: float
    battery: float


@lru_cache(maxsize=8)
def _shifts(seed: int) -> tuple[float, float, float]:
    first, second, third = stream(seed, "trace_population").generator().random(3).tolist()
    return first, second, third


def _habits(seed: int, client: ClientId) -> _Habits:
    points = [(shift + (client + 1) * step) % 1.0 for shift, step in zip(_shifts(seed), _STEPS, strict=True)]
    return _Habits(*(float(ndtri(min(max(point, 1e-6), 1 - 1e-6))) for point in points))


def _spread(score: float, numbers: tuple[float, float, float]) -> float:
    median, below, above = numbers
    return median + score * (above if score > 0 else below)


class _Kind(NamedTuple):
    """Charges or gaps of one phone."""

    durations: Durations
    mean_s: float
    swing: float


def _kinds(population: Population, habits: _Habits) -> tuple[_Kind, _Kind]:
    """Gaps and charges, in this order, so that ``is_charge`` is the index."""
    duty = float(expit(_spread(habits.duty, population.logit_duty)))
    cycle_s = HORIZON_S / math.exp(_spread(habits.frequency, population.log_cycles))
    return (
        _Kind(population.gaps, (1 - duty) * cycle_s, population.gap_swing),
        _Kind(population.charges, duty * cycle_s, -population.charge_swing),
    )


def _alternation(numbers: Calibration, seed: int, client: ClientId, habits: _Habits) -> Iterator[_Stretch]:
    """Charges and gaps until the horizon is covered; the first one may have begun before time 0."""
    kinds = _kinds(numbers.population, habits)
    peak_s = numbers.population.peak_s
    source = stream(seed, "trace", client=client).generator()
    first = _first(kinds, peak_s, source.random(4), _fates(numbers.draining, habits, source.random((1, 4)))[0])
    yield first
    is_charge, now = first.is_charge, first.end_s
    while now < HORIZON_S:
        uniforms = source.random((_BLOCK, 6))
        fates = _fates(numbers.draining, habits, uniforms[:, 2:])
        drawn = [kind.durations.draw_s(uniforms[:, index], kind.mean_s) for index, kind in enumerate(kinds)]
        short = [uniforms[:, index] < kind.durations.short_share for index, kind in enumerate(kinds)]
        lengths, is_short = np.column_stack(drawn).tolist(), np.column_stack(short).tolist()
        for row in range(_BLOCK):
            for _ in range(2):
                is_charge = not is_charge
                length = lengths[row][is_charge]
                # Flicker does not care about the time of day.
                swing = 0.0 if is_short[row][is_charge] else kinds[is_charge].swing
                start, now = now, max(now + 1, round(after_s(now, length, swing, peak_s)))
                yield _Stretch(start, now, is_charge, fates[row])
                if now >= HORIZON_S:
                    return


def _first(kinds: tuple[_Kind, _Kind], peak_s: float, uniforms: Floats, fate: _Fate) -> _Stretch:
    """What goes on at time 0: met in proportion to its length, at a uniform place within it."""
    gap, charge = kinds
    is_charge = bool(uniforms[0] * (gap.mean_s + charge.mean_s) < charge.mean_s)
    kind = kinds[is_charge]
    lengths = kind.durations.long_s((np.arange(_CANDIDATES) + uniforms[1]) / _CANDIDATES, kind.mean_s)
    passed = np.cumsum(lengths)
    length = float(lengths[min(int(np.searchsorted(passed, uniforms[2] * passed[-1])), _CANDIDATES - 1)])
    end = max(1, round(after_s(0.0, length * float(uniforms[3]), kind.swing, peak_s)))
    return _Stretch(min(0, round(end - length)), end, is_charge, fate)


def _fates(draining: Draining, habits: _Habits, uniforms: Floats) -> list[_Fate]:
    """Batteries of gaps from uniforms of shape ``(n, 4)``."""
    start, drain, recharge, place = np.clip(uniforms.T, 1e-9, 1 - 1e-9)
    near = draining.near_share
    is_near = drain < near
    score = ndtri(np.where(is_near, drain / near, (drain - near) / (1 - near)).clip(1e-9, 1 - 1e-9))
    far_s = np.exp(draining.far[0] + draining.far_habit * habits.battery + draining.far[1] * score)
    drain_s = np.where(is_near, np.exp(draining.near[0] + draining.near[1] * score), far_s)
    return [_Fate(*row) for row in np.column_stack((ndtri(start), drain_s, far_s, recharge, place)).tolist()]


def _changes(
    stretch: _Stretch, battery: Battery | None, draining: Draining, habit: float
) -> Iterator[tuple[int, Availability]]:
    """Cut a stretch into states: a charge trains, a gap evaluates while the battery is above the threshold."""
    at, end, is_charge, fate = stretch
    if is_charge or battery is None:
        yield at, Availability.AVL_TRAIN if is_charge else Availability.UN_AVL
        return
    full_drain_s = fate.long_drain_s if end - at > draining.near_below_s else fate.drain_s
    drain_s = max(1, round(battery.drain_scale * full_drain_s))
    if fate.start_score < battery.score(end - at) + draining.start_habit * habit:
        yield at, Availability.AVL_EVAL
        at += drain_s
    if at >= end:
        return
    yield at, Availability.UN_AVL
    if end - at > draining.recharge_after_s and fate.recharge < draining.recharge_share:
        at += round((end - at) * fate.place)
        yield at, Availability.AVL_EVAL
        if at + drain_s < end:
            yield at + drain_s, Availability.UN_AVL
