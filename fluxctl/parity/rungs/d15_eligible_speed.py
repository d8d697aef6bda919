"""Whether the clients that could be asked are as fast in both runs."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import modelled_world
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats, Ints
from fluxctl.types import NS_PER_S
from fluxctl.world.availability import is_eligible
from fluxctl.world.flight import ClientWorld

MOST: Final = 0.20
MOST_MOMENTS: Final = 200  # selections that are looked at, evenly spread
MOST_CLIENTS: Final = 2000  # clients that are looked at: durations are drawn alike for all, so the first ones will do


@rung(
    "D15",
    "A2b",
    "eligible_speed",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are the clients among which the aggregator can choose as fast in both runs?",
    broken="One run chooses among faster clients, so it would look quicker with the very same policy.",
    needs=("D14",),
)
def eligible_speed(left: Observed, right: Observed, options: Options) -> Finding:
    """KS distance of the modelled durations of clients that are believed reachable and not busy, over selections."""
    durations, weights, nums = [], [], []
    for window in windows(left, right, options):
        world = modelled_world(window.run)
        if isinstance(world, str):
            return skip(world)
        assert window.run.config is not None
        num = min(window.run.config.clients.num_clients, MOST_CLIENTS)
        moments = _moments(window)
        durations.append(np.array([world.delays.duration_ns(client) / NS_PER_S for client in range(num)]))
        weights.append(_pool(window, world, moments, num).sum(axis=0))
        nums.append(len(moments))
    n, threshold = min(nums), f"<= {MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} selections, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    if not all(of.any() for of in weights):
        return skip("at no selection was anybody free and believed to be reachable")
    distance = weighted_ks(durations[0], weights[0], durations[1], weights[1])
    means = [float(np.average(d, weights=w)) for d, w in zip(durations, weights, strict=True)]
    return Finding(
        Status.PASS if distance <= MOST else Status.FAIL,
        distance,
        threshold,
        n,
        f"durations of clients that could be asked: D = {distance:.3g}, means {means[0]:.4g} and {means[1]:.4g} s",
        {"mean_s": means},
    )


def _moments(window: Window) -> Ints:
    times = window.run["selection"].ints("t_ns")[window.selections()]
    if len(times) > MOST_MOMENTS:
        times = times[np.linspace(0, len(times) - 1, MOST_MOMENTS).astype(np.int64)]
    return times


def _pool(window: Window, world: ClientWorld, moments: Ints, num: int) -> NDArray[np.bool_]:
    """Who could be asked at each moment, shape ``(num_moments, num)``: reachable, and not at work for the aggregator.

    Flights that ended without a commit are not known to be over, so their clients count as free.

    Raises:
        AbsentField: If cycles do not tell their contributors' intervals.
    """
    codes = np.array([world.knowledge.believed_states(num, int(t)) for t in moments]).reshape(len(moments), num)
    pool = is_eligible(codes, world.eligible)
    cycles = window.run.cycles
    clients = cycles.lists("contributing_trainers").values
    starts = np.asarray(cycles.lists("contributor_intervals[].dispatch").values, np.float64) * NS_PER_S
    ends = np.asarray(cycles.lists("contributor_intervals[].commit").values, np.float64) * NS_PER_S
    if not len(clients) == len(starts) == len(ends):
        return pool
    for row, t in enumerate(moments.tolist()):  # half a nanosecond of grace: intervals are rounded to seconds as floats
        busy = clients[(starts < t - 0.5) & (ends > t + 0.5)].astype(np.int64)
        pool[row, busy[busy < num]] = False
    return pool


def weighted_ks(left: Floats, left_weights: Floats, right: Floats, right_weights: Floats) -> float:
    """Kolmogorov-Smirnov distance of two samples whose values count by weights; neither without weight."""
    points = np.unique(np.concatenate((left, right)))
    shares = [_cdf(left, left_weights, points), _cdf(right, right_weights, points)]
    return float(np.max(np.abs(shares[0] - shares[1])))


def _cdf(values: Floats, weights: Floats, points: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    sums = np.concatenate(([0.0], np.cumsum(weights[order], dtype=np.float64)))
    return np.asarray(sums[np.searchsorted(values[order], points, side="right")] / sums[-1], dtype=np.float64)
