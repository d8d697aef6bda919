"""The ledger against a plain model, over every transition in any order."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fluxctl.engine.ledger import ClientState, Flight, Ledger, client_hash, set_fingerprint
from fluxctl.errors import InvariantError
from fluxctl.types import NEVER

CLIENTS = st.integers(0, 5)
TIMES = st.integers(0, 20)
COMPUTING, WITHHELD, RETURNED, ABANDONED = (
    ClientState.COMPUTING,
    ClientState.WITHHELD,
    ClientState.RETURNED,
    ClientState.ABANDONED,
)
HOLDS_SLOT = {COMPUTING, WITHHELD, RETURNED}
DURATIONS = st.one_of(TIMES, st.just(NEVER))
# From each state, the legal transitions and where they lead; None = idle.
LEGAL: dict[str, dict[ClientState, ClientState | None]] = {
    "withhold": {COMPUTING: WITHHELD},
    "commit": {RETURNED: None},
    "reject": {RETURNED: None},
    "cancel": {COMPUTING: None, WITHHELD: None},
    "resolve": {ABANDONED: None},
}


@dataclass
class Modelled:
    """What the ledger should know of one dispatch."""

    flight: Flight
    state: ClientState
    dispatched: int
    due: int
    duration: int
    taken: bool = False
    lost: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """The model is one dict of client -> dispatch, in dispatch order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model: dict[int, Modelled] = {}
        self.closed: list[Flight] = []
        self.num_dispatched = 0

    def state_of(self, client: int) -> ClientState:
        return self.model[client].state if client in self.model else ClientState.IDLE

    @rule(client=CLIENTS, t=TIMES, duration=DURATIONS)
    def dispatch(self, client: int, t: int, duration: int) -> None:
        due = NEVER if duration == NEVER else t + duration
        times = {"dispatch_ns": t, "due_ns": due, "duration_ns": duration}
        if client in self.model:
            with pytest.raises(InvariantError, match=f"client {client} is dispatched while"):
                self.ledger.dispatch(client, **times)
            return
        flight = self.ledger.dispatch(client, **times)
        self.num_dispatched += 1
        assert (flight.task_id, flight.state, flight.taken) == (self.num_dispatched, COMPUTING, False)
        assert not flight.lost
        self.model[client] = Modelled(flight, COMPUTING, t, due, duration)

    @rule(client=CLIENTS, extra=st.integers(-2, 5))
    def deliver(self, client: int, extra: int) -> None:
        """The late update of an abandoned client leaves it abandoned, and only moves its due time."""
        state = self.state_of(client)
        if state not in (COMPUTING, WITHHELD, ABANDONED):
            with pytest.raises(InvariantError):
                self.ledger.deliver(client, 0)
            return
        entry = self.model[client]
        if entry.due >= NEVER:  # its work is lost: nobody sends it
            return
        entry.state = ABANDONED if state is ABANDONED else RETURNED
        if extra < 0:  # an update is never due before its earliest due time
            with pytest.raises(InvariantError, match="before its earliest due time"):
                self.ledger.deliver(client, entry.due + extra)
        else:
            self.ledger.deliver(client, entry.due + extra)
            entry.due += extra

    @rule(client=CLIENTS, name=st.sampled_from(sorted(LEGAL)))
    def transition(self, client: int, name: str) -> None:
        state = self.state_of(client)
        if state not in LEGAL[name]:
            with pytest.raises(InvariantError):
                getattr(self.ledger, name)(client)
            return
        flight = getattr(self.ledger, name)(client)
        assert flight.client == client
        to = LEGAL[name][state]
        if to is None:
            self.closed.append(self.model.pop(client).flight)
        else:
            self.model[client].state = to

    @rule(client=CLIENTS, lost=st.booleans())
    def abandon(self, client: int, lost: bool) -> None:
        """Legal from every state that holds a slot: an update may be here before its logically earlier turn."""
        if self.state_of(client) not in HOLDS_SLOT:
            with pytest.raises(InvariantError):
                self.ledger.abandon(client, lost=lost)
            return
        assert self.ledger.abandon(client, lost=lost).lost is lost
        self.model[client].state, self.model[client].lost = ABANDONED, lost

    @rule(client=CLIENTS)
    def lose(self, client: int) -> None:
        """The wait for a late update ends."""
        if self.state_of(client) is ABANDONED:
            self.model[client].flight.lost = self.model[client].lost = True

    @rule(client=CLIENTS)
    def take(self, client: int) -> None:
        if self.state_of(client) is not RETURNED or self.model[client].taken:
            with pytest.raises(InvariantError):
                self.ledger.take(client)
            return
        self.ledger.take(client)
        self.model[client].taken = True

    @invariant()
    def states_agree(self) -> None:
        for client in range(6):
            assert self.ledger.state(client) is self.state_of(client)
            assert self.ledger.is_idle(client) == (client not in self.model)
        assert list(self.ledger.busy()) == list(self.model)

    @invariant()
    def openness_agrees(self) -> None:
        """What is foreseen for a dispatch is void once it is closed or in the aggregator's hands."""
        for entry in self.model.values():
            assert self.ledger.is_open(entry.flight) == (not entry.taken)
        assert not any(self.ledger.is_open(flight) for flight in self.closed)

    @invariant()
    def counts_agree(self) -> None:
        states = [entry.state for entry in self.model.values()]
        assert self.ledger.num_in_flight == sum(state in HOLDS_SLOT for state in states)
        assert self.ledger.num_awaited == sum(state in {COMPUTING, WITHHELD} for state in states)
        assert self.ledger.num_busy == len(states)
        assert self.ledger.num_dispatched == self.num_dispatched
        holding = [client for client, entry in self.model.items() if entry.state in HOLDS_SLOT]
        assert [flight.client for flight in self.ledger.in_flight()] == holding

    @invariant()
    def fingerprint_is_that_of_the_set(self) -> None:
        busy = sorted(self.model, reverse=True)  # in another order than dispatch
        assert self.ledger.busy_fingerprint == set_fingerprint(tuple(busy))
        assert self.ledger.busy_fingerprint == sum(client_hash(client) for client in busy) % 2**64

    @invariant()
    def earliest_is_the_minimum(self) -> None:
        """Abandoned clients count while their late updates are expected; what will never come is never first."""
        order = [
            (entry.due, entry.duration, client)
            for client, entry in self.model.items()
            if entry.due < NEVER and not entry.taken and not entry.lost
        ]
        first = self.ledger.earliest()
        assert (None if first is None else first.order) == (min(order) if order else None)

    @invariant()
    def oldest_dispatch_is_the_earliest_that_holds_a_slot(self) -> None:
        """Not the first in the order of dispatching: staggered ones are dispatched ahead of their start."""
        holding = [entry.dispatched for entry in self.model.values() if entry.state in HOLDS_SLOT]
        assert self.ledger.oldest_dispatch_ns() == min(holding, default=None)


TestLedger = pytest.mark.feature("A11")(LedgerMachine.TestCase)
TestLedger.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.feature("A11")
def test_an_idle_client_has_no_dispatch() -> None:
    with pytest.raises(InvariantError, match="client 3 is idle"):
        Ledger().flight(3)


@pytest.mark.feature("A28")
def test_fingerprints_do_not_depend_on_order_and_tell_sets_apart() -> None:
    assert set_fingerprint((1, 2, 3)) == set_fingerprint((3, 1, 2))
    assert set_fingerprint(()) == 0
    prints = {set_fingerprint(tuple(range(size))) for size in range(200)}
    pairs = {set_fingerprint((a, b)) for a in range(60) for b in range(a)}
    assert len(prints) == 200
    assert len(pairs) == 60 * 59 // 2
    assert all(0 <= value < 2**64 for value in prints | pairs)


@pytest.mark.feature("A21")
def test_ties_go_to_the_smaller_duration_then_to_the_smaller_client() -> None:
    flights = [
        Flight(4, 1, dispatch_ns=0, due_ns=10, duration_ns=10),
        Flight(2, 2, dispatch_ns=5, due_ns=10, duration_ns=5),
        Flight(1, 3, dispatch_ns=0, due_ns=10, duration_ns=10),
        Flight(9, 4, dispatch_ns=0, due_ns=9, duration_ns=9),
    ]
    assert [flight.client for flight in sorted(flights, key=lambda flight: flight.order)] == [9, 2, 1, 4]
