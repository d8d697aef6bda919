"""What an availability trace is like: shares, transitions, durations, and how many clients are there at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fluxctl.types import Availability, ClientId, Ns, s_from_ns
from fluxctl.world.availability import AVAILABLE, STATES, Trace, is_eligible

PERCENTILES: Final = (10, 25, 50, 75, 90, 95)
SYMBOLS: Final = {Availability.AVL_TRAIN: "#", Availability.AVL_EVAL: "+", Availability.UN_AVL: "."}
_MOMENTS: Final = 500


class Stay(NamedTuple):
    """A client in one state."""

    start_ns: Ns
    end_ns: Ns
    state: Availability


@dataclass(frozen=True)
class StateStats:
    """One state.

    Args:
        share: Of all clients' time.
        num_stays: Stays that began and ended within the span.
        percentiles_s: Their durations in seconds at ``PERCENTILES``; empty without any.
    """

    share: float
    num_stays: int
    percentiles_s: tuple[float, ...]


@dataclass(frozen=True)
class TraceStats:
    """Some clients over a span of engine time.

    Args:
        num_clients: How many.
        until_s: Length of the span in seconds.
        states: Each state.
        transitions: Changes per client: mean, least and most.
        at_once: Clients that can be reached, over time: mean, 5th and 95th percentile, least and most.
    """

    num_clients: int
    until_s: float
    states: dict[str, StateStats]
    transitions: tuple[float, int, int]
    at_once: tuple[float, float, float, int, int]


def stays(trace: Trace, client: ClientId, until: Ns) -> Iterator[Stay]:
    """A client's states over ``[0, until)``."""
    t: Ns | None = 0
    while t is not None and t < until:
        change = trace.next_change(client, t)
        end = until if change is None else min(change, until)
        yield Stay(t, end, trace.state(client, t))
        t = change


def trace_stats(trace: Trace, num_clients: int, until: Ns) -> TraceStats:
    """Measure the first clients of a trace over ``[0, until)``.

    Durations are those of stays that began and ended within the span.
    """
    spent = dict.fromkeys(STATES, 0)
    durations: dict[Availability, list[float]] = {state: [] for state in STATES}
    transitions = []
    for client in range(num_clients):
        own = list(stays(trace, client, until))
        transitions.append(len(own) - 1)
        for stay in own:
            spent[stay.state] += stay.end_ns - stay.start_ns
        for stay in own[1:-1]:
            durations[stay.state].append(s_from_ns(stay.end_ns - stay.start_ns))
    return TraceStats(
        num_clients,
        s_from_ns(until),
        {
            state.value: StateStats(
                spent[state] / (num_clients * until), len(durations[state]), _percentiles(durations[state])
            )
            for state in STATES
        },
        (sum(transitions) / num_clients, min(transitions), max(transitions)),
        _at_once(trace, num_clients, until),
    )


def timeline(trace: Trace, client: ClientId, until: Ns, width: int) -> str:
    """A client's states as text: for each of ``width`` equal spans the symbol of the state that fills most of it."""
    cells = [dict.fromkeys(STATES, 0) for _ in range(width)]
    for stay in stays(trace, client, until):
        for index in range(stay.start_ns * width // until, min(width - 1, stay.end_ns * width // until) + 1):
            start, end = index * until // width, (index + 1) * until // width
            cells[index][stay.state] += max(0, min(end, stay.end_ns) - max(start, stay.start_ns))
    return "".join(SYMBOLS[max(STATES, key=cell.__getitem__)] for cell in cells)


def _percentiles(durations: list[float]) -> tuple[float, ...]:
    return tuple(np.percentile(durations, PERCENTILES).tolist()) if durations else ()


def _at_once(trace: Trace, num_clients: int, until: Ns) -> tuple[float, float, float, int, int]:
    moments = [(2 * index + 1) * until // (2 * _MOMENTS) for index in range(_MOMENTS)]
    counts = [int(np.count_nonzero(is_eligible(trace.states(num_clients, t), AVAILABLE))) for t in moments]
    p5, p95 = np.percentile(counts, [5, 95])
    return sum(counts) / len(counts), float(p5), float(p95), min(counts), max(counts)
