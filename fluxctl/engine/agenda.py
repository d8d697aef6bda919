"""What will happen to open dispatches besides their updates: withheld, given up, back again.

Known at dispatch, kept in logical order, and void as soon as the dispatch is closed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum

from fluxctl.engine.ledger import Flight, Ledger
from fluxctl.types import Ns
from fluxctl.world.flight import FlightPlan, GiveUp


class Turn(IntEnum):
    """What an entry is about; the order of entries of one instant."""

    WITHHELD = 0  # the update is ready, but its client cannot be reached
    GIVEN_UP = 1  # the aggregator frees the slot
    BACK = 2  # a client whose work is lost can be asked again


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn in the life of a dispatch."""

    t: Ns
    turn: Turn
    flight: Flight
    plan: FlightPlan

    @property
    def reason(self) -> str:
        """Why a slot is freed."""
        return (self.plan.give_up or GiveUp.SILENT).value


@dataclass
class Agenda:
    """Turns of open dispatches, earliest first.

    Args:
        ledger: Says whether a dispatch is still open.
    """

    ledger: Ledger
    _heap: list[tuple[Ns, int, int, Entry]] = field(default_factory=list)

    def add(self, flight: Flight, plan: FlightPlan) -> None:
        """Note everything that is foreseen for a dispatch."""
        if plan.give_up_ns is not None:
            if plan.due_ns < min(plan.delivery_ns, plan.give_up_ns):
                self._push(Entry(plan.due_ns, Turn.WITHHELD, flight, plan))
            self._push(Entry(plan.give_up_ns, Turn.GIVEN_UP, flight, plan))
        elif plan.delivery_ns > plan.due_ns:
            self._push(Entry(plan.due_ns, Turn.WITHHELD, flight, plan))

    def add_return(self, entry: Entry, t: Ns) -> None:
        """A client whose work is lost comes back at ``t``."""
        self._push(Entry(t, Turn.BACK, entry.flight, entry.plan))

    def next_ns(self) -> Ns | None:
        """Time of the earliest turn that is still to come; None if there is none."""
        while self._heap:
            entry = self._heap[0][-1]
            if self.ledger.is_open(entry.flight):
                return entry.t
            heapq.heappop(self._heap)
        return None

    def pop_until(self, t: Ns) -> list[Entry]:
        """Take all turns up to ``t``, in order."""
        entries = []
        while (at := self.next_ns()) is not None and at <= t:
            entries.append(heapq.heappop(self._heap)[-1])
        return entries

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, (entry.t, int(entry.turn), entry.flight.task_id, entry))
