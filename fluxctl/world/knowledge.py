"""What the aggregator believes about a client's availability: a pure function of trace, policy, client and time.

The trace says what is true; a knowledge policy says how much of it is known, and how late. Nothing is remembered
between questions, so beliefs are the same whatever was asked before, on both clocks and after a resume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, final

import numpy as np
from pydantic import Field

from fluxctl.registry import Params
from fluxctl.types import Availability, ClientId, Ns, ns_from_s
from fluxctl.world.availability.states import AVAILABLE, CODES, STATES, Codes, States, is_eligible
from fluxctl.world.availability.trace import Trace


class KnowledgeParams(Params):
    """What the aggregator knows about availability."""

    policy: Literal["unaware", "oracular", "client_notify", "heartbeat"] = Field(
        "unaware", description="unaware = everybody seems available; oracular = the trace; or what clients tell"
    )
    num_states: Literal[2, 3] = Field(
        3, description="client_notify: 2 = a client that can only evaluate counts as unavailable; 3 = as it is"
    )
    notify_latency_s: float = Field(0.0, ge=0, description="client_notify: how late a transition is known")
    heartbeat_every_s: float = Field(30.0, gt=0, description="heartbeat: period of the pings of an available client")
    allowed_misses: int = Field(
        3, ge=1, description="heartbeat: alive while the last ping is younger than this many periods"
    )


class Knowledge(Protocol):
    """Beliefs about clients over time."""

    def believed_state(self, client: ClientId, t: Ns) -> Availability:
        """Belief at ``t``."""
        ...

    def believed_next_available(self, client: ClientId, t: Ns, eligible: States, until: Ns) -> Ns | None:
        """The first time in ``[t, until]`` at which the client is believed to be in an eligible state.

        It tells when the belief will be, from what will happen: an engine wakes at it. None if there is none.
        """
        ...

    def next_belief_change(self, client: ClientId, t: Ns, until: Ns) -> Ns | None:
        """The first time in ``(t, until]`` at which the belief changes; None if it does not."""
        ...

    def believed_states(self, num_clients: int, t: Ns) -> Codes:
        """Beliefs about clients ``0..num_clients-1``, shape ``(num_clients,)``, as indices of ``STATES``."""
        ...


def build_knowledge(params: KnowledgeParams, trace: Trace) -> Knowledge:
    """The knowledge policy over a trace."""
    if params.policy == "unaware":
        return Unaware()
    if params.policy == "oracular":
        return Notified(trace, latency_ns=0, num_states=3)
    if params.policy == "client_notify":
        return Notified(trace, ns_from_s(params.notify_latency_s), params.num_states)
    return Heartbeat(trace, max(1, ns_from_s(params.heartbeat_every_s)), params.allowed_misses)


@final
@dataclass(frozen=True, slots=True)
class Unaware:
    """Everybody seems available; the aggregator learns otherwise only from silence."""

    def believed_state(self, client: ClientId, t: Ns) -> Availability:  # noqa: ARG002 - the protocol's
        """Belief at ``t``."""
        return Availability.AVL_TRAIN

    def believed_next_available(self, client: ClientId, t: Ns, eligible: States, until: Ns) -> Ns | None:  # noqa: ARG002
        """``t`` itself."""
        return t if Availability.AVL_TRAIN in eligible and t <= until else None

    def next_belief_change(self, client: ClientId, t: Ns, until: Ns) -> Ns | None:  # noqa: ARG002
        """None: nothing is ever heard."""
        return None

    def believed_states(self, num_clients: int, t: Ns) -> Codes:  # noqa: ARG002
        """Beliefs about the first clients."""
        return np.full(num_clients, CODES[Availability.AVL_TRAIN], dtype=np.int8)


@final
@dataclass(frozen=True, slots=True)
class Notified:
    """Clients report their transitions, and a report arrives after a latency; with latency 0 this is the oracle.

    The state at time 0 is part of a client's registration, so it is known from the start.

    Args:
        trace: What is true.
        latency_ns: Age of what is known.
        num_states: 2 folds AVL_EVAL into UN_AVL.
    """

    trace: Trace
    latency_ns: Ns
    num_states: Literal[2, 3]

    def believed_state(self, client: ClientId, t: Ns) -> Availability:
        """Belief at ``t``: the state of a latency ago, as reported."""
        return self._reported(self.trace.state(client, self._origin(t)))

    def believed_next_available(self, client: ClientId, t: Ns, eligible: States, until: Ns) -> Ns | None:
        """The first time in ``[t, until]`` at which the client is believed to be in an eligible state."""
        origin = self._origin(t)
        truth = frozenset(state for state in STATES if self._reported(state) in eligible)
        begins = self.trace.next_available(client, origin, truth)
        if begins is None:
            return None
        known = t if begins == origin else begins + self.latency_ns
        return known if known <= until else None

    def next_belief_change(self, client: ClientId, t: Ns, until: Ns) -> Ns | None:
        """The first time in ``(t, until]`` at which the belief changes."""
        belief = self.believed_state(client, t)
        changed = self.trace.next_change(client, self._origin(t))
        while changed is not None and changed + self.latency_ns <= until:
            if self._reported(self.trace.state(client, changed)) is not belief:
                return changed + self.latency_ns
            changed = self.trace.next_change(client, changed)
        return None

    def believed_states(self, num_clients: int, t: Ns) -> Codes:
        """Beliefs about the first clients."""
        codes = self.trace.states(num_clients, self._origin(t))
        return np.array([CODES[self._reported(state)] for state in STATES], dtype=np.int8)[codes]

    def _origin(self, t: Ns) -> Ns:
        """When what is known at ``t`` was true."""
        return max(0, t - self.latency_ns)

    def _reported(self, state: Availability) -> Availability:
        folded = self.num_states == 2 and state is Availability.AVL_EVAL
        return Availability.UN_AVL if folded else state


@final
@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Available clients ping at multiples of a period; a ping carries the state, silence means gone.

    All pings of one time are one multiple of the period and a whole number of misses is allowed, so beliefs change
    at these multiples only.

    Args:
        trace: What is true.
        every_ns: The period, at least 1.
        allowed_misses: A client is alive while its last ping is younger than this many periods; at least 1.
    """

    trace: Trace
    every_ns: Ns
    allowed_misses: int

    def believed_state(self, client: ClientId, t: Ns) -> Availability:
        """Belief at ``t``: the state of the last ping, if it is young enough."""
        for ping in self._pings(t):
            state = self.trace.state(client, ping)
            if state in AVAILABLE:
                return state
        return Availability.UN_AVL

    def believed_next_available(self, client: ClientId, t: Ns, eligible: States, until: Ns) -> Ns | None:
        """The first time in ``[t, until]`` at which the client is believed to be in an eligible state."""
        at: Ns | None = t
        while at is not None and at <= until:
            if self.believed_state(client, at) in eligible:
                return at
            at = self.next_belief_change(client, at, until)
        return None

    def next_belief_change(self, client: ClientId, t: Ns, until: Ns) -> Ns | None:
        """The first time in ``(t, until]`` at which the belief changes."""
        belief = self.believed_state(client, t)
        ping = (t // self.every_ns + 1) * self.every_ns
        while ping <= until:
            if self.believed_state(client, ping) is not belief:
                return ping
            skipped = self._steady_until(client, ping, belief)
            if skipped is None:
                return None
            ping = skipped
        return None

    def believed_states(self, num_clients: int, t: Ns) -> Codes:
        """Beliefs about the first clients."""
        beliefs = np.full(num_clients, CODES[Availability.UN_AVL], dtype=np.int8)
        for ping in reversed(self._pings(t)):  # a later ping overrules
            codes = self.trace.states(num_clients, ping)
            heard = is_eligible(codes, AVAILABLE)
            beliefs[heard] = codes[heard]
        return beliefs

    def _pings(self, t: Ns) -> list[Ns]:
        """Times of the pings that count at ``t``, the latest first."""
        last = t // self.every_ns
        return [number * self.every_ns for number in range(last, max(-1, last - self.allowed_misses), -1)]

    def _steady_until(self, client: ClientId, ping: Ns, belief: Availability) -> Ns | None:
        """The next ping after ``ping`` that may change the belief; None if none ever will."""
        if self.trace.state(client, ping) is not belief:  # a silence that is about to be noticed
            return ping + self.every_ns
        changed = self.trace.next_change(client, ping)
        return None if changed is None else max(ping + self.every_ns, -(-changed // self.every_ns) * self.every_ns)
