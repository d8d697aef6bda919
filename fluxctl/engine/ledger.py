"""The ledger: where every client is, in one place.

One state per client, and no second set that could disagree with it: slots in use, residence, the eligible pool and its
fingerprint are all read from here. Only clients that are not idle have an entry, so a million idle clients cost
nothing.

::

    idle --dispatch--> computing --deliver--> returned --commit/reject--> idle
                           |  `--withhold--> withheld --deliver--> returned
                           |--cancel--> idle                 (compute was stopped)
                           `--abandon--> abandoned --resolve--> idle   (late update arrived, or its compute was stopped)

A client that only evaluates goes the same way, in a slot of another count: ``returned --finish--> idle``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fluxctl.engine.messages import Work
from fluxctl.errors import InvariantError
from fluxctl.types import NEVER, ClientId, Ns

_MASK = (1 << 64) - 1


class ClientState(StrEnum):
    """Where a client is; absent from the ledger means idle."""

    IDLE = "idle"
    COMPUTING = "computing"
    WITHHELD = "withheld"
    RETURNED = "returned"
    ABANDONED = "abandoned"


_HOLDS_SLOT = frozenset({ClientState.COMPUTING, ClientState.WITHHELD, ClientState.RETURNED})
_AWAITED = frozenset({ClientState.COMPUTING, ClientState.WITHHELD})


@dataclass(slots=True)
class Flight:
    """One dispatch of one client, until its update is committed.

    Args:
        client: Who was asked.
        task_id: Unique number of this dispatch.
        dispatch_ns: Logical time of the dispatch.
        due_ns: When the update becomes visible, NEVER if it will not; a lower bound until it has returned if compute is
            charged as measured.
        duration_ns: Modelled duration D.
        state: Current state.
        taken: Whether the aggregator has its update in hand; the slot stays held until the commit.
        lost: Whether the aggregator has stopped waiting for the update of an abandoned client.
        work: What the client was asked for.
    """

    client: ClientId
    task_id: int
    dispatch_ns: Ns
    due_ns: Ns
    duration_ns: Ns
    state: ClientState = ClientState.COMPUTING
    taken: bool = False
    lost: bool = False
    work: Work = Work.TRAIN

    @property
    def order(self) -> tuple[Ns, Ns, ClientId]:
        """Logical order of updates: due time, then D, then client id."""
        return (self.due_ns, self.duration_ns, self.client)


def client_hash(client: ClientId) -> int:
    """Mix a client id to 64 bits (the finaliser of SplitMix64), so that a sum over a set identifies the set."""
    z = (client + 1) * 0x9E3779B97F4A7C15 & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def set_fingerprint(clients: Iterator[ClientId] | tuple[ClientId, ...]) -> int:
    """Order-free 64-bit fingerprint of a set of clients."""
    return sum(map(client_hash, clients)) & _MASK


class Ledger:
    """State of every client.

    Illegal transitions raise :class:`~fluxctl.errors.InvariantError`: they are bugs, and a run that hid one would lie.
    """

    def __init__(self) -> None:
        self._flights: dict[ClientId, Flight] = {}
        self._queue: list[tuple[Ns, Ns, ClientId, int]] = []  # logical order of what is in flight, lazily cleaned
        self._num_held = dict.fromkeys(Work, 0)  # slots in use
        self._num_awaited = 0
        self._busy_hash = 0
        self.num_dispatched = 0
        self.latest_due_ns: Ns = 0  # of all updates so far that will come

    def state(self, client: ClientId) -> ClientState:
        """Where ``client`` is."""
        flight = self._flights.get(client)
        return ClientState.IDLE if flight is None else flight.state

    def is_idle(self, client: ClientId) -> bool:
        """Whether a selector may be offered ``client``."""
        return client not in self._flights

    def flight(self, client: ClientId) -> Flight:
        """The open dispatch of ``client``.

        Raises:
            InvariantError: If it is idle.
        """
        try:
            return self._flights[client]
        except KeyError:
            raise InvariantError(f"client {client} is idle and has no dispatch") from None

    def is_open(self, flight: Flight) -> bool:
        """Whether a dispatch is neither closed nor in the aggregator's hands."""
        return self._flights.get(flight.client) is flight and not flight.taken

    @property
    def num_in_flight(self) -> int:
        """Slots in use: dispatched to train and not yet committed, abandoned ones not counted."""
        return self._num_held[Work.TRAIN]

    @property
    def num_evaluating(self) -> int:
        """Evaluation slots in use."""
        return self._num_held[Work.EVALUATE]

    @property
    def num_awaited(self) -> int:
        """Updates and measurements that hold a slot and have not arrived."""
        return self._num_awaited

    @property
    def awaits_any(self) -> bool:
        """Whether an update or measurement that holds a slot is not yet in the aggregator's hands."""
        return self._num_awaited > 0 or any(f.state in _HOLDS_SLOT and not f.taken for f in self._flights.values())

    @property
    def num_busy(self) -> int:
        """Clients that are not idle, abandoned ones included."""
        return len(self._flights)

    @property
    def busy_fingerprint(self) -> int:
        """Fingerprint of the set of clients that are not idle."""
        return self._busy_hash

    def oldest_dispatch_ns(self) -> Ns | None:
        """Earliest dispatch time of what holds a slot; None when nothing is in flight.

        Staggered dispatches are made ahead of their start, so it need not be the first that was made.
        """
        return min((f.dispatch_ns for f in self._flights.values() if f.state in _HOLDS_SLOT), default=None)

    def busy(self) -> Iterator[ClientId]:
        """Clients that are not idle, in dispatch order."""
        return iter(self._flights)

    def in_flight(self) -> list[Flight]:
        """Open dispatches that hold a training slot, in dispatch order."""
        return [f for f in self._flights.values() if f.work is Work.TRAIN and f.state in _HOLDS_SLOT]

    def dispatch(
        self, client: ClientId, *, dispatch_ns: Ns, due_ns: Ns, duration_ns: Ns, work: Work = Work.TRAIN
    ) -> Flight:
        """Move idle -> computing."""
        if client in self._flights:
            raise InvariantError(f"client {client} is dispatched while {self._flights[client].state}")
        self.num_dispatched += 1
        flight = Flight(client, self.num_dispatched, dispatch_ns, due_ns, duration_ns, work=work)
        self._flights[client] = flight
        self._num_held[work] += 1
        self._num_awaited += 1
        self._busy_hash = (self._busy_hash + client_hash(client)) & _MASK
        if due_ns < NEVER:
            self._push(flight)
        return flight

    def deliver(self, client: ClientId, due_ns: Ns) -> Flight:
        """Move computing or withheld -> returned; ``due_ns`` is the update's final due time.

        The late update of an abandoned client leaves it abandoned, until :meth:`resolve` when its turn comes.
        """
        flight = self.flight(client)
        if flight.state is not ClientState.ABANDONED:
            self._move(client, ClientState.RETURNED, ClientState.COMPUTING, ClientState.WITHHELD)
        if due_ns < flight.due_ns:
            raise InvariantError(f"client {client} delivers at {due_ns}, before its earliest due time {flight.due_ns}")
        if due_ns != flight.due_ns:
            flight.due_ns = due_ns
            self._push(flight)
        return flight

    def withhold(self, client: ClientId) -> Flight:
        """Move computing -> withheld: finished, but the client cannot be reached."""
        return self._move(client, ClientState.WITHHELD, ClientState.COMPUTING)

    def commit(self, client: ClientId) -> Flight:
        """Move returned -> idle: the update is part of a cohort."""
        return self._close(client, ClientState.RETURNED)

    def reject(self, client: ClientId) -> Flight:
        """Move returned -> idle: the staleness policy refused the update."""
        return self._close(client, ClientState.RETURNED)

    def finish(self, client: ClientId) -> Flight:
        """Move returned -> idle: what an evaluation measured is noted."""
        return self._close(client, ClientState.RETURNED)

    def cancel(self, client: ClientId) -> Flight:
        """Move computing or withheld -> idle: its work was stopped."""
        return self._close(client, ClientState.COMPUTING, ClientState.WITHHELD)

    def abandon(self, client: ClientId, *, lost: bool) -> Flight:
        """Move computing, withheld or returned -> abandoned: the slot is free, the client stays unselectable.

        A returned update can be given up as well: on a wall clock it may have arrived before the aggregator comes to
        a logically earlier turn.

        Args:
            client: Who is given up.
            lost: Whether its update is not waited for any more, because it will not come, or nobody knows when.
        """
        flight = self._move(client, ClientState.ABANDONED, *_HOLDS_SLOT)
        flight.lost = lost
        self._num_held[flight.work] -= 1
        return flight

    def resolve(self, client: ClientId) -> Flight:
        """Move abandoned -> idle: its late update has arrived or its compute was stopped."""
        return self._close(client, ClientState.ABANDONED)

    def earliest(self) -> Flight | None:
        """The open dispatch that is logically first and not yet taken, or None when there is none.

        An abandoned client counts as long as its late update is expected.
        """
        queue = self._queue
        while queue:
            due_ns, _, client, task_id = queue[0]
            flight = self._flights.get(client)
            if (
                flight is not None
                and flight.task_id == task_id
                and flight.due_ns == due_ns
                and flight.state is not ClientState.IDLE
                and not flight.taken
                and not flight.lost
            ):
                return flight
            heapq.heappop(queue)
        return None

    def awaited_in_order(self, num: int) -> list[Flight]:
        """The first ``num`` open dispatches that :meth:`earliest` would name, one after the other."""
        flights = (f for f in self._flights.values() if f.due_ns < NEVER and not f.taken and not f.lost)
        return heapq.nsmallest(num, flights, key=lambda flight: flight.order)

    def take(self, client: ClientId) -> Flight:
        """Leave a returned client out of :meth:`earliest`: its update is in the aggregator's hands."""
        flight = self.flight(client)
        if flight.state is not ClientState.RETURNED or flight.taken:
            raise InvariantError(f"client {client} has no update to take ({flight.state})")
        flight.taken = True
        return flight

    def _push(self, flight: Flight) -> None:
        self.latest_due_ns = max(self.latest_due_ns, flight.due_ns)
        heapq.heappush(self._queue, (*flight.order, flight.task_id))

    def _move(self, client: ClientId, to: ClientState, *allowed: ClientState) -> Flight:
        flight = self.flight(client)
        if flight.state not in allowed:
            raise InvariantError(f"client {client} cannot go from {flight.state} to {to}")
        self._num_awaited += (to in _AWAITED) - (flight.state in _AWAITED)
        flight.state = to
        return flight

    def _close(self, client: ClientId, *allowed: ClientState) -> Flight:
        flight = self._move(client, ClientState.IDLE, *allowed)
        del self._flights[client]
        if ClientState.ABANDONED not in allowed:
            self._num_held[flight.work] -= 1
        self._busy_hash = (self._busy_hash - client_hash(client)) & _MASK
        return flight
