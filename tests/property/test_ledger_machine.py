"""The ledger against a plain model, over every transition in any order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fluxctl.engine.ledger import ClientState, Flight, Ledger, client_hash, set_fingerprint
from fluxctl.errors import InvariantError

CLIENTS = st.integers(0, 5)
TIMES = st.integers(0, 20)
COMPUTING, WITHHELD, RETURNED, ABANDONED = (
    ClientState.COMPUTING,
    ClientState.WITHHELD,
    ClientState.RETURNED,
    ClientState.ABANDONED,
)
HOLDS_SLOT = {COMPUTING, WITHHELD, RETURNED}
# From each state, the legal transitions and where they lead; None = idle.
LEGAL: dict[str, dict[ClientState, ClientState | None]] = {
    "withhold": {COMPUTING: WITHHELD},
    "commit": {RETURNED: None},
    "reject": {RETURNED: None},
    "cancel": {COMPUTING: None},
    "abandon": {COMPUTING: ABANDONED, WITHHELD: ABANDONED},
    "resolve": {ABANDONED: None},
}


class LedgerMachine(RuleBasedStateMachine):
    """The model is one dict of client -> (state, due, D, taken), in dispatch order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model: dict[int, tuple[ClientState, int, int, bool]] = {}
        self.num_dispatched = 0

    @rule(client=CLIENTS, t=TIMES, duration=TIMES)
    def dispatch(self, client: int, t: int, duration: int) -> None:
        times = {"dispatch_ns": t, "due_ns": t + duration, "duration_ns": duration}
        if client in self.model:
            with pytest.raises(InvariantError, match=f"client {client} is dispatched while"):
                self.ledger.dispatch(client, **times)
            return
        flight = self.ledger.dispatch(client, **times)
        self.num_dispatched += 1
        assert (flight.task_id, flight.state, flight.taken) == (self.num_dispatched, COMPUTING, False)
        self.model[client] = (COMPUTING, t + duration, duration, False)

    @rule(client=CLIENTS, extra=st.integers(-2, 5))
    def deliver(self, client: int, extra: int) -> None:
        state, due, duration, taken = self.model.get(client, (ClientState.IDLE, 0, 0, False))
        if state not in (COMPUTING, WITHHELD):
            with pytest.raises(InvariantError):
                self.ledger.deliver(client, due)
        elif extra < 0:  # an update is never due before its earliest due time
            with pytest.raises(InvariantError, match="before its earliest due time"):
                self.ledger.deliver(client, due + extra)
            self.model[client] = (RETURNED, due, duration, taken)
        else:
            self.ledger.deliver(client, due + extra)
            self.model[client] = (RETURNED, due + extra, duration, taken)

    @rule(client=CLIENTS, name=st.sampled_from(sorted(LEGAL)))
    def transition(self, client: int, name: str) -> None:
        state, due, duration, taken = self.model.get(client, (ClientState.IDLE, 0, 0, False))
        if state not in LEGAL[name]:
            with pytest.raises(InvariantError):
                getattr(self.ledger, name)(client)
            return
        flight = getattr(self.ledger, name)(client)
        assert flight.client == client
        to = LEGAL[name][state]
        if to is None:
            del self.model[client]
        else:
            self.model[client] = (to, due, duration, taken)

    @rule(client=CLIENTS)
    def take(self, client: int) -> None:
        state, due, duration, taken = self.model.get(client, (ClientState.IDLE, 0, 0, False))
        if state is not RETURNED or taken:
            with pytest.raises(InvariantError):
                self.ledger.take(client)
            return
        self.ledger.take(client)
        self.model[client] = (state, due, duration, True)

    @invariant()
    def states_agree(self) -> None:
        for client in range(6):
            expected = self.model[client][0] if client in self.model else ClientState.IDLE
            assert self.ledger.state(client) is expected
            assert self.ledger.is_idle(client) == (client not in self.model)
        assert list(self.ledger.busy()) == list(self.model)

    @invariant()
    def counts_agree(self) -> None:
        states = [state for state, *_ in self.model.values()]
        assert self.ledger.num_in_flight == sum(state in HOLDS_SLOT for state in states)
        assert self.ledger.num_awaited == sum(state in {COMPUTING, WITHHELD} for state in states)
        assert self.ledger.num_busy == len(states)
        assert self.ledger.num_dispatched == self.num_dispatched
        holding = [client for client, (state, *_) in self.model.items() if state in HOLDS_SLOT]
        assert [flight.client for flight in self.ledger.in_flight()] == holding

    @invariant()
    def fingerprint_is_that_of_the_set(self) -> None:
        busy = sorted(self.model, reverse=True)  # in another order than dispatch
        assert self.ledger.busy_fingerprint == set_fingerprint(tuple(busy))
        assert self.ledger.busy_fingerprint == sum(client_hash(client) for client in busy) % 2**64

    @invariant()
    def earliest_is_the_minimum(self) -> None:
        order = [
            (due, duration, client)
            for client, (state, due, duration, taken) in self.model.items()
            if state in HOLDS_SLOT and not taken
        ]
        first = self.ledger.earliest()
        assert (None if first is None else first.order) == (min(order) if order else None)

    @invariant()
    def oldest_dispatch_is_the_first_that_holds_a_slot(self) -> None:
        holding = self.ledger.in_flight()
        assert self.ledger.oldest_dispatch_ns() == (holding[0].dispatch_ns if holding else None)


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
