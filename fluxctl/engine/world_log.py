"""Telemetry of availability: who came and went, and when the aggregator learned of it.

Only for populations of up to a thousand: in larger ones each selection event's composition has to do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from fluxctl.types import Availability, ClientId, Ns, s_from_ns
from fluxctl.world.flight import ClientWorld

MAX_CLIENTS: Final = 1000

Emit = Callable[[Ns, str, dict[str, object], ClientId], None]


class WorldLog:
    """Emits changes of states and of beliefs as logical time passes.

    Args:
        world: Availability and beliefs.
        num_clients: Size of the population.
        until: End of the run's budget.
        source: Name of the knowledge policy, for the events.
        emit: Takes time, event name, fields and client.
        since: What happened up to then is not told.
    """

    def __init__(self, world: ClientWorld, num_clients: int, until: Ns, source: str, emit: Emit, since: Ns = 0) -> None:
        self._world = world
        self._until = until
        self._source = source
        self._emit = emit
        self._changes: list[tuple[Ns, ClientId]] = []
        self._beliefs: list[tuple[Ns, ClientId]] = []
        if world.always_available or num_clients > MAX_CLIENTS:
            return
        for client in range(num_clients):
            self._push_change(client, since)
            self._push_belief(client, since)

    def advance(self, t: Ns) -> None:
        """Emit everything that has happened up to ``t``."""
        while self._changes and self._changes[0][0] <= t:
            at, client = heapq.heappop(self._changes)
            old, new = self._world.trace.state(client, at - 1), self._world.trace.state(client, at)
            self._emit(at, "avail_change", _change(client, old, new, at), client)
            self._push_change(client, at)
        while self._beliefs and self._beliefs[0][0] <= t:
            at, client = heapq.heappop(self._beliefs)
            state = self._world.knowledge.believed_state(client, at)
            fields: dict[str, object] = {
                "client": client,
                "state": state.value,
                "observed_s": s_from_ns(at),
                "source": self._source,
            }
            self._emit(at, "agg_belief_change", fields, client)
            self._push_belief(client, at)

    def _push_change(self, client: ClientId, t: Ns) -> None:
        at = self._world.trace.next_change(client, t)
        if at is not None and at <= self._until:
            heapq.heappush(self._changes, (at, client))

    def _push_belief(self, client: ClientId, t: Ns) -> None:
        at = self._world.knowledge.next_belief_change(client, t, self._until)
        if at is not None:
            heapq.heappush(self._beliefs, (at, client))


def _change(client: ClientId, old: Availability, new: Availability, at: Ns) -> dict[str, object]:
    return {"client": client, "old": old.value, "new": new.value, "engine_s": s_from_ns(at)}
