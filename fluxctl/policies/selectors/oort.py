"""Oort's guided selection: prefer clients whose data still has high loss and that are fast; keep trying unknown ones.

Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021, arXiv:2010.06081. Asking
for more clients than a cycle needs (1.3 K, closed at K) is the caller's part: it passes the larger number.

The weighted draw is an exponential race (a client's ticket is an Exp(1) draw divided by its score; the smallest
tickets win), which is exactly successive sampling in proportion to the scores. It needs no probabilities, so none can
fail to sum to 1: zero scores, one client and unknown utilities are no special cases. Percentiles are order statistics
over every known client and not over the idle ones, which are the fast ones.

A selection is linear in the number of clients, however many are wanted: some twenty passes over arrays, no sort, no
loop. Its bound is 60 ns and 64 bytes for each client; for a million it takes 9 ms while few are known and 53 ms when
all are.

The rules are functions here; ``async_oort`` uses the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fluxctl.policies.selectors.base import SELECTORS, ClientBeliefs, Selection, SelectionView
from fluxctl.policies.selectors.ranking import smallest
from fluxctl.registry import Params
from fluxctl.types import JSON
from fluxctl.world.seeds import Stream

_MAX_THRESHOLD: Final = 100.0


class OortParams(Params):
    """What a preset may set; the defaults are the paper's."""

    round_threshold: float = Field(30.0, gt=0, le=100, description="percentile of known durations that is preferred")
    clip_percentile: float = Field(98.0, gt=0, le=100, description="utilities above this percentile count as it")
    speed_exponent: float = Field(2.0, ge=0, description="alpha: a slower client's score is scaled by (D_pref/D)^alpha")
    exploration: float = Field(0.9, ge=0, lt=1, description="share of unknown clients, before it decays")
    exploration_decay: float = Field(0.98, gt=0, le=1, description="factor on exploration per selection")
    exploration_min: float = Field(0.2, ge=0, lt=1, description="floor of exploration")
    cut_off: float = Field(0.95, gt=0, le=1, description="share of the last needed score that still takes part")
    pacer_window: int = Field(20, ge=1, description="selections between adjustments of round_threshold")
    pacer_step: float = Field(5.0, gt=0, description="size of an adjustment, and least round_threshold")
    blocklist_after: int | None = Field(None, ge=1, description="selections after which a client rests; null = never")
    blocklist_max_frac: float = Field(0.3, ge=0, le=1, description="largest share of clients that may rest")


@SELECTORS.register("oort", OortParams)
@final
@dataclass(frozen=True, slots=True)
class Oort:
    """Useful and fast clients first, with exploration and a pacer (Oort), for synchronous cycles."""

    params: OortParams

    def initial_state(self) -> Mapping[str, float]:
        """See :func:`initial_state`."""
        return initial_state(self.params)

    def select(self, view: SelectionView, num: int, stream: Stream, state: Mapping[str, float]) -> Selection:
        """Choose by utility and speed; see :class:`~fluxctl.policies.selectors.base.Selector`."""
        return guided_selection(self.params, view, num, stream, state)


@dataclass(frozen=True, slots=True)
class _Draw:
    """One selection's outcome before it is told."""

    exploited: NDArray[np.int64]
    explored: NDArray[np.int64]
    scores: NDArray[np.float64]  # of the exploited, in the same order


def initial_state(params: OortParams) -> Mapping[str, float]:
    """Threshold (percentile), current window and the utility sums of it and of the one before."""
    return {"threshold": params.round_threshold, "window": 0.0, "window_sum": 0.0, "previous_sum": 0.0}


def guided_selection(
    params: OortParams, view: SelectionView, num: int, stream: Stream, state: Mapping[str, float]
) -> Selection:
    """Choose by utility and speed; linear in the number of clients, vectorised.

    Args:
        params: Settings of the rules.
        view: The situation.
        num: Most clients to choose.
        stream: Randomness of this selection.
        state: What the previous call returned, or :func:`initial_state`.
    """
    state = paced(params, state, view.round)
    preferred_s = percentile(view.beliefs.duration_s, state["threshold"])
    rate = exploration(params, view.round)
    draw = _draw(params, view, min(num, view.num_eligible), stream.generator(), preferred_s, rate)
    chosen = np.concatenate([draw.exploited, draw.explored])
    gained = float(view.beliefs.utility[draw.exploited].sum())
    return Selection(
        chosen=tuple(chosen.tolist()),
        state={**state, "window_sum": state["window_sum"] + gained},
        detail={
            "preferred_duration_s": None if math.isnan(preferred_s) else preferred_s,
            "exploration": rate,
            "round_threshold": state["threshold"],
            "num_explored": len(draw.explored),
            "score": [*draw.scores.tolist(), *[None] * len(draw.explored)],
            "utility": _jsonable(view.beliefs.utility[chosen]),
            "duration_s": _jsonable(view.beliefs.duration_s[chosen]),
        },
    )


def _draw(
    params: OortParams,
    view: SelectionView,
    num: int,
    generator: np.random.Generator,
    preferred_s: float,
    rate: float,
) -> _Draw:
    candidates = _unblocked(params, view, num)
    is_known = np.isfinite(view.beliefs.utility[candidates])
    if view.round == 1:
        is_known[:] = False  # the first selection is uniform
    known, unknown = candidates[is_known], candidates[~is_known]
    num_exploited = min(num - min(int(num * rate) + 1, len(unknown)), len(known)) if num else 0
    explored = generator.choice(unknown, size=min(num - num_exploited, len(unknown)), replace=False)
    scores = client_scores(params, view.beliefs, known, view.round, preferred_s)
    winners = race(scores, num_exploited, params.cut_off, generator)
    return _Draw(exploited=known[winners], explored=explored, scores=scores[winners])


def _unblocked(params: OortParams, view: SelectionView, num: int) -> NDArray[np.int64]:
    """The eligible clients less the blocklist, unless that would leave too few."""
    eligible, limit = view.eligible(), params.blocklist_after
    if limit is None:
        return eligible
    times = view.beliefs.num_selected
    over = np.flatnonzero(times >= limit)
    resting = over[smallest(-times[over], over.astype(np.float64), int(params.blocklist_max_frac * view.num_clients))]
    is_resting = np.zeros(view.num_clients, dtype=bool)
    is_resting[resting] = True
    rested = eligible[~is_resting[eligible]]
    return rested if len(rested) >= num else eligible


def exploration(params: OortParams, round: int) -> float:
    """Share of unknown clients at selection ``round``, which counts from 1."""
    return max(params.exploration * params.exploration_decay ** (round - 1), params.exploration_min)


def percentile(values: NDArray[np.float64], percent: float) -> float:
    """Order statistic at ``percent`` of the finite values, as in Oort's code; nan if there are none."""
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return math.nan
    rank = min(int(len(known) * percent / 100), len(known) - 1)
    return float(np.partition(known, rank)[rank])


def client_scores(
    params: OortParams,
    beliefs: ClientBeliefs,
    clients: NDArray[np.int64],
    round: int,
    preferred_s: float,
) -> NDArray[np.float64]:
    """Score clients of known utility: clipped utility plus a temporal term, times a speed penalty.

    Args:
        params: Percentile of the clip, exponent of the penalty.
        beliefs: Utilities, durations and last rounds, by client id.
        clients: Ids to score, shape ``(n,)``.
        round: This selection's index, from 1.
        preferred_s: Duration up to which there is no penalty, seconds; nan if none is known.

    Returns:
        Scores of at least 0, shape ``(n,)``.

    Source:
        Lai et al., OSDI 2021, section 4.2 and algorithm 1.
    """
    clip = percentile(beliefs.utility, params.clip_percentile)
    utility = np.clip(beliefs.utility[clients], 0.0, max(clip, 0.0)) if len(clients) else np.empty(0)
    temporal = np.sqrt(0.1 * math.log(round) / np.maximum(beliefs.last_round[clients], 1))
    duration_s = beliefs.duration_s[clients]
    is_slow = duration_s > preferred_s  # false where either is unknown
    speed = np.ones(len(clients))
    speed[is_slow] = (preferred_s / duration_s[is_slow]) ** params.speed_exponent
    return np.asarray((utility + temporal) * speed)


def race(scores: NDArray[np.float64], num: int, cut_off: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw ``num`` positions without replacement in proportion to their scores, among the good ones.

    Args:
        scores: At least 0, shape ``(n,)``.
        num: How many to draw, at most ``n``.
        cut_off: Scores below this share of the ``num``-th best take no part.
        generator: Source of the tickets.

    Returns:
        Positions in ``scores`` in the order of the draw, shape ``(num,)``. Zero scores come last, in random order.
    """
    if num == 0:
        return np.empty(0, dtype=np.int64)
    last_needed = np.partition(scores, len(scores) - num)[len(scores) - num]
    taking_part = np.flatnonzero(scores >= cut_off * last_needed)
    exponential = generator.standard_exponential(len(taking_part))
    with np.errstate(divide="ignore", over="ignore"):
        tickets = exponential / scores[taking_part]
    return taking_part[smallest(tickets, exponential, num)]


def paced(params: OortParams, state: Mapping[str, float], round: int) -> dict[str, float]:
    """Close the pacer's window when ``round`` has left it, and adjust the percentile of the preferred duration.

    Utility that stays level means that the fast clients are exhausted: prefer longer durations. A jump means the
    opposite. A window without utility (only unknown clients were chosen) compares with nothing and changes nothing.

    Returns:
        The state with ``threshold`` adjusted and, in a new window, ``window_sum`` at 0.
    """
    window = float((round - 1) // params.pacer_window)
    if window <= state["window"]:
        return dict(state)
    current, previous = state["window_sum"], state["previous_sum"]
    threshold = state["threshold"]
    if previous > 0 and abs(current - previous) <= 0.1 * previous:
        threshold = min(threshold + params.pacer_step, _MAX_THRESHOLD)
    elif previous > 0 and abs(current - previous) >= 5 * previous:
        threshold = max(threshold - params.pacer_step, params.pacer_step)
    return {"threshold": threshold, "window": window, "window_sum": 0.0, "previous_sum": current}


def _jsonable(values: NDArray[np.float64]) -> list[JSON]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
