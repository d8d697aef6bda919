"""What every availability trace answers.

A trace is a pure function of (client, time): no cursor, no generator state, so an answer depends on nothing that was
asked before, and two threads may ask at once. Times are integer nanoseconds of engine time and any time at or after 0
has an answer, however far beyond the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fluxctl.errors import InvariantError
from fluxctl.types import Availability, ClientId, Ns
from fluxctl.world.availability.states import Codes, States


class Trace(Protocol):
    """States of clients over time."""

    def state(self, client: ClientId, t: Ns) -> Availability:
        """State at ``t``; a change at ``t`` has happened."""
        ...

    def next_change(self, client: ClientId, t: Ns) -> Ns | None:
        """The first time after ``t`` at which the state differs from that just before; None if it never changes."""
        ...

    def next_available(self, client: ClientId, t: Ns, eligible: States) -> Ns | None:
        """The first time at or after ``t`` in an eligible state; None if there is none."""
        ...

    def available_ns(self, client: ClientId, t0: Ns, t1: Ns, eligible: States) -> Ns:
        """Nanoseconds of ``[t0, t1)`` in eligible states."""
        ...

    def states(self, num_clients: int, t: Ns) -> Codes:
        """States of clients ``0..num_clients-1`` at ``t``, shape ``(num_clients,)``, as indices of ``STATES``."""
        ...


def fraction_available(trace: Trace, clients: Iterable[ClientId], t0: Ns, t1: Ns, eligible: States) -> float:
    """Share of clients' time that is spent in eligible states.

    Args:
        trace: The trace.
        clients: Whose time; at least one.
        t0: Start of the span.
        t1: End of the span, after ``t0``.
        eligible: States that count.
    """
    if t1 <= t0:
        raise InvariantError(f"a share of time needs a span: [{t0}, {t1}) is empty")
    asked = list(clients)
    return sum(trace.available_ns(client, t0, t1, eligible) for client in asked) / (len(asked) * (t1 - t0))
