"""The reorder buffer: updates leave it in logical order, whatever order they arrived in.

In logical order an update may be handled when nothing in flight could be due earlier. Due times are known at dispatch
(or bounded from below, if compute is charged as measured), so the next update to handle is known before it arrives,
and the aggregator waits for that one. On a virtual clock it is there when it is due. On a wall clock it may be late;
after ``reorder_slack`` the wait ends, the client is abandoned, and the run records a broken invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock
from fluxctl.engine.ledger import ClientState, Flight, Ledger
from fluxctl.engine.messages import Arrival, Register, StopRequest, ToAggregator, TrainerFailure, Update
from fluxctl.errors import RunBrokeError
from fluxctl.types import NEVER, ClientId, Ns


class TrainerFailedError(RunBrokeError):
    """A trainer raised and the run does not go on without it."""

    code = "trainer_failed"

    def __init__(self, failure: TrainerFailure) -> None:
        super().__init__(
            f"the trainer of client {failure.task.client} raised {failure.error}",
            hint="the traceback is in the run's run.log; engine.on_trainer_error can be fail, drop or retry",
            where=failure.place,
        )
        self.detail = failure.traceback


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """Somebody outside asked the run to end."""


_NOTHING_BUT_URGENT: Final = 1 << 60  # messages to wait for: more than ever come


@dataclass(frozen=True, slots=True)
class Handed:
    """An update or failure, in order.

    Attributes:
        arrival: The message.
        is_late: Whether its client had been given up; it holds no slot and is idle again.
    """

    arrival: Arrival
    is_late: bool


@dataclass
class Collector:
    """Receives messages and hands updates out in order.

    Args:
        clock: The engine's clock.
        ledger: Client states.
        inbox: The aggregator's mailbox.
        logical_order: False = hand out in the order of physical arrival.
        slack_ns: Longest wait beyond an update's due time.
        register: Called with a trainer thread that has started.
        release: Called with a task id whose trainer thread is free again.
        overdue: Called with a dispatch whose slack has run out, before it is abandoned.
        failed: Called with a trainer's failure when it is known.
        fails_fast: Raise a failure as soon as it is clear that it would be handed out, instead of in its turn.
        end_ns: Engine time after which nothing is handed out.
    """

    clock: Clock
    ledger: Ledger
    inbox: Mailbox[ToAggregator]
    logical_order: bool
    slack_ns: Ns
    register: Callable[[int], None]
    release: Callable[[int], None]
    overdue: Callable[[Flight], None]
    failed: Callable[[TrainerFailure], None]
    fails_fast: bool = True
    end_ns: Ns = NEVER
    _arrived: dict[ClientId, Arrival] = field(default_factory=dict)  # in order of physical arrival
    num_late_after_abandon: int = 0

    def next(self, wanted: int, until: Ns | None = None) -> Handed | None:
        """Block until the next update in order is here.

        Args:
            wanted: Updates that the caller needs before it can act; lets it sleep through the first ones.
            until: Engine time at which the caller has something else to do.

        Returns:
            The update or failure, taken from the ledger; None when ``until`` comes before the next one, or when none
            is expected.

        Raises:
            StopRequested: If the run was asked to end.
            TrainerFailedError: If a trainer raised, failures are not to be survived, and this one would be handed out.
        """
        while True:
            self._fail_early(wanted)
            first = self.ledger.earliest()
            if until is not None and (first is None or first.due_ns > until):
                if self._reached(until):
                    return None
                continue
            if first is None:
                return None
            client = first.client if self.logical_order else next(iter(self._arrived), None)
            if client is not None and client in self._arrived:
                return self._hand_out(client)
            # Never for more than can come, or the wait would last until its deadline.
            missing = max(1, min(wanted - len(self._arrived), self.ledger.num_awaited)) if until is None else 1
            in_time = self.clock.wait(self.inbox, first.due_ns + self.slack_ns, at_least=missing)
            self.receive()
            if not in_time and first.client not in self._arrived and self.ledger.earliest() is first:
                self._lose(first)

    def _fail_early(self, wanted: int) -> None:
        """Raise a failure that is among the next ``wanted`` in order, since no other dispatch will come before those.

        (Unless clients are given up in between.) One that is not may turn out to be surplus, whose result nobody asks
        for; a simulation would not even compute it.
        """
        failures = [arrival for arrival in self._arrived.values() if isinstance(arrival, TrainerFailure)]
        if not failures or not self.fails_fast or not self.logical_order:
            return
        clear = {flight.client for flight in self.ledger.awaited_in_order(wanted) if flight.due_ns <= self.end_ns}
        for failure in failures:
            if failure.task.client in clear:
                raise TrainerFailedError(failure)

    def reach(self, t: Ns) -> None:
        """Let the clock get to ``t``, the aggregator being busy until then.

        Raises:
            StopRequested: If the run was asked to end.
        """
        while not self._reached(t):
            pass

    def _reached(self, t: Ns) -> bool:
        """Let the clock get to ``t``, unless something urgent comes first."""
        if self.clock.wait(self.inbox, t, at_least=_NOTHING_BUT_URGENT):
            self.receive()
            return False
        return True

    def _hand_out(self, client: ClientId) -> Handed:
        is_late = self.ledger.state(client) is ClientState.ABANDONED
        if is_late:
            self.ledger.resolve(client)
        else:
            self.ledger.take(client)
        return Handed(self._arrived.pop(client), is_late)

    def _lose(self, flight: Flight) -> None:
        """The slack has run out: go on without the update, whenever it may come."""
        self.overdue(flight)
        if flight.state is ClientState.ABANDONED:
            flight.lost = True
        else:
            self.ledger.abandon(flight.client, lost=True)

    def receive(self) -> None:
        """Take in all messages that have arrived.

        Raises:
            StopRequested: If one of them asks the run to end.
        """
        for message in self.inbox.drain():
            if isinstance(message, StopRequest):
                raise StopRequested(message.reason)
            if isinstance(message, Register):
                self.register(message.trainer)
            else:
                self._accept(message)

    def drop_surplus(self) -> list[Flight]:
        """Close everything still in flight, arrived or not: a barrier was reached without it."""
        dropped = []
        for flight in self.ledger.in_flight():
            if flight.state is ClientState.RETURNED:
                self._arrived.pop(flight.client, None)
                self.ledger.reject(flight.client)
            else:
                self.ledger.cancel(flight.client)
            dropped.append(flight)
        return dropped

    def _accept(self, arrival: Arrival) -> None:
        task = arrival.task
        if isinstance(arrival, TrainerFailure):
            self.failed(arrival)
        self.release(task.task_id)
        if self.ledger.is_idle(task.client) or self.ledger.flight(task.client).task_id != task.task_id:
            return  # cancelled in the instant in which it was sent
        flight = self.ledger.flight(task.client)
        if flight.state is ClientState.ABANDONED and flight.lost:
            self.ledger.resolve(task.client)
            self.num_late_after_abandon += 1
            return
        due_ns = arrival.due_ns if isinstance(arrival, Update) else task.earliest_due_ns
        self.ledger.deliver(task.client, due_ns)
        self._arrived[task.client] = arrival
