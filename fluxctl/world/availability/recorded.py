"""A trace that has one timeline per client, all with the same horizon and the same rule beyond it.

Timelines may be given at once (an imported trace) or made when a client is first asked for (a generated one), so that
a million idle clients cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt

from fluxctl.errors import ConfigError
from fluxctl.types import Availability, ClientId, Ns
from fluxctl.world.availability.states import CODES, Codes, States
from fluxctl.world.availability.timeline import Exhaustion, Timeline

_KEPT_CLIENTS: Final = 1 << 16  # a timeline takes a few kilobytes; one that was dropped is made anew


@final
class RecordedTrace:
    """Timelines of all clients.

    Args:
        timeline: A client's timeline; a pure function. All have the same end and exhaustion.
        horizon_ns: Their common end.
        exhaustion: Their common rule beyond it.
    """

    def __init__(self, timeline: Callable[[ClientId], Timeline], horizon_ns: Ns, exhaustion: Exhaustion) -> None:
        self.horizon_ns = horizon_ns
        self.exhaustion = exhaustion
        self.timeline: Callable[[ClientId], Timeline] = lru_cache(maxsize=_KEPT_CLIENTS)(timeline)
        self._packed: _Packed | None = None

    @staticmethod
    def of(timelines: Mapping[ClientId, Timeline], name: str = "the trace") -> RecordedTrace:
        """A trace of given timelines, at least one.

        A client without one raises a :class:`ConfigError` when it is asked for; :func:`require_clients` asks early.
        """
        first = next(iter(timelines.values()))

        def timeline(client: ClientId) -> Timeline:
            if client not in timelines:
                raise missing_clients([client], name)
            return timelines[client]

        return RecordedTrace(timeline, first.end, first.exhaustion)

    def state(self, client: ClientId, t: Ns) -> Availability:
        """State at ``t``."""
        return self.timeline(client).state(t)

    def next_change(self, client: ClientId, t: Ns) -> Ns | None:
        """The first change after ``t``."""
        return self.timeline(client).next_change(t)

    def next_available(self, client: ClientId, t: Ns, eligible: States) -> Ns | None:
        """The first time at or after ``t`` in an eligible state."""
        return self.timeline(client).next_available(t, eligible)

    def available_ns(self, client: ClientId, t0: Ns, t1: Ns, eligible: States) -> Ns:
        """Nanoseconds of ``[t0, t1)`` in eligible states."""
        timeline = self.timeline(client)
        return timeline.available_ns(t1, eligible) - timeline.available_ns(t0, eligible)

    def states(self, num_clients: int, t: Ns) -> Codes:
        """States of the first clients at ``t``, shape ``(num_clients,)``.

        The first call for a population packs its timelines into arrays; later ones are one vectorised bisection.
        """
        packed = self._packed
        if packed is None or packed.num_clients != num_clients:
            packed = self._packed = _Packed([self.timeline(client) for client in range(num_clients)])
        if t >= self.horizon_ns:
            if self.exhaustion is Exhaustion.STOP:
                return np.full(num_clients, CODES[Availability.UN_AVL], dtype=np.int8)
            t = t % self.horizon_ns if self.exhaustion is Exhaustion.WRAP else self.horizon_ns - 1
        return packed.states(t)


def missing_clients(clients: list[ClientId], name: str) -> ConfigError:
    """The error for clients that a trace says nothing about."""
    shown = ", ".join(str(client) for client in clients[:5]) + (", ..." if len(clients) > 5 else "")
    who = f"client {shown}" if len(clients) == 1 else f"{len(clients)} clients ({shown})"
    return ConfigError(
        f"{name} has no line for {who}",
        hint="add them to the trace (one line `client,0,UN_AVL` is enough), or lower clients.num_clients",
        where="availability.trace",
    )


class _Packed:
    """All timelines in three arrays: client i owns ``starts[bounds[i]:bounds[i + 1]]``."""

    def __init__(self, timelines: list[Timeline]) -> None:
        self.num_clients = len(timelines)
        self.bounds: npt.NDArray[np.int64] = np.cumsum([0, *(len(line.starts) for line in timelines)], dtype=np.int64)
        self.starts = np.array([start for line in timelines for start in line.starts], dtype=np.int64)
        self.codes = np.array([CODES[state] for line in timelines for state in line.states], dtype=np.int8)

    def states(self, t: Ns) -> Codes:
        """States at a time within the horizon."""
        low, high = self.bounds[:-1].copy(), self.bounds[1:].copy()  # the answer is in [low, high)
        longest = int((high - low).max(initial=1))
        for _ in range((longest - 1).bit_length()):
            middle = (low + high) >> 1
            begun = self.starts[np.minimum(middle, len(self.starts) - 1)] <= t
            low = np.where(begun & (middle < high), middle, low)
            high = np.where(begun, high, np.maximum(middle, low + 1))
        return self.codes[low]
