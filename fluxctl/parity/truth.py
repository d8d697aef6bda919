"""What availability should have been, from a run's configuration, and what its events say that it was.

Traces and beliefs are pure functions of (client, time), so what a run recorded can be held against them without the
engine. Times are engine time; a change at an instant has happened at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.data.worlds import build_world
from fluxctl.errors import FluxError
from fluxctl.parity.observed import Observed
from fluxctl.telemetry.columns import MISSING_INT, AbsentField, Floats, Ints, Labels
from fluxctl.types import Availability, ClientId, Ns
from fluxctl.world.availability import CODES, STATES, Codes
from fluxctl.world.flight import ClientWorld

NUM_STATES: Final = len(STATES)
MEAN_MOST: Final = 0.05  # total variation distance of a client's time in states, averaged over clients
MOST_OF_MOST: Final = 0.10  # the same for 95 % of the clients


def modelled_world(run: Observed) -> ClientWorld | str:
    """The clients that a run's configuration describes, or why there are none to hold the run against."""
    if run.config is None:
        return f"the {run.label} run has no configuration that can be read"
    try:
        world = build_world(run.config)
    except FluxError as error:
        return f"the world of the {run.label} run cannot be built: {error}"
    return world


def traced_world(run: Observed) -> ClientWorld | str:
    """As :func:`modelled_world`, but a world in which clients come and go."""
    world = modelled_world(run)
    if not isinstance(world, str) and world.always_available:
        return f"the {run.label} run has no availability trace: all clients are always available"
    return world


def num_clients(run: Observed) -> int:
    """Size of the population; without a configuration, up to the greatest id that changed its state."""
    if run.config is not None:
        return run.config.clients.num_clients
    clients = run["avail_change"].ints("client")
    return int(clients.max(initial=-1)) + 1


@dataclass(frozen=True)
class StateLog:
    """States of clients over time, as events tell them.

    Attributes:
        starts: For each client, when its states begin, increasing, from 0.
        codes: Its states from then on.
    """

    starts: list[Ints]
    codes: list[Codes]

    def at(self, client: ClientId, times: Ints) -> Codes:
        """Codes of a client's states at times, shape of ``times``."""
        return self.codes[client][np.searchsorted(self.starts[client], times, side="right") - 1]

    def shares(self, client: ClientId, end: Ns) -> Floats:
        """Share of ``[0, end)`` that a client spent in each state, shape ``(NUM_STATES,)``."""
        within = self.starts[client] < end
        spans = np.diff(np.append(self.starts[client][within], end))
        return np.bincount(self.codes[client][within], weights=spans, minlength=NUM_STATES) / max(end, 1)


def observed_states(run: Observed, until: Ns) -> StateLog:
    """States as ``avail_change`` tells them; where it says nothing, the trace's state at the start holds.

    Raises:
        AbsentField: If no client ever changed its state.
    """
    world = modelled_world(run)

    def initial(client: ClientId, first_old: int | None) -> int:
        if first_old is not None:
            return first_old
        return CODES[Availability.AVL_TRAIN] if isinstance(world, str) else CODES[world.trace.state(client, 0)]

    table = run["avail_change"]
    old, new = _codes(table.labels("old")), _codes(table.labels("new"))
    return _log(table.ints("client"), table.ints("t_ns"), new, old, num_clients(run), until, initial)


def observed_beliefs(run: Observed, world: ClientWorld, until: Ns) -> StateLog:
    """Beliefs as ``agg_belief_change`` tells them; at the start the knowledge policy's.

    Raises:
        AbsentField: If no belief ever changed.
    """
    table = run["agg_belief_change"]
    states = _codes(table.labels("state"))

    def initial(client: ClientId, _: int | None) -> int:
        return CODES[world.knowledge.believed_state(client, 0)]

    return _log(table.ints("client"), table.ints("t_ns"), states, None, num_clients(run), until, initial)


def _codes(labels: Labels) -> Ints:
    """State codes of a column of words; -1 for a word that is no state."""
    known = [CODES.get(Availability(name), -1) if name in set(Availability) else -1 for name in labels.names]
    return np.array([*known, -1], dtype=np.int64)[labels.codes]


def _log(
    clients: Ints,
    times: Ints,
    new: Ints,
    old: Ints | None,
    num: int,
    until: Ns,
    initial: Callable[[ClientId, int | None], int],
) -> StateLog:
    kept = (clients != MISSING_INT) & (clients < num) & (new >= 0) & (times <= until)
    order = np.flatnonzero(kept)[np.lexsort((times[kept], clients[kept]))]  # stable: file order within an instant
    bounds = np.searchsorted(clients[order], np.arange(num + 1))
    starts, codes = [], []
    for client in range(num):
        rows = order[bounds[client] : bounds[client + 1]]
        before = int(old[rows[0]]) if old is not None and len(rows) else -1
        first = initial(client, before if before >= 0 else None)
        starts.append(np.concatenate(([0], times[rows])))
        codes.append(np.concatenate(([first], new[rows])).astype(np.int8))
    return StateLog(starts, codes)


def true_shares(world: ClientWorld, client: ClientId, end: Ns) -> Floats:
    """Share of ``[0, end)`` that the trace has a client in each state, shape ``(NUM_STATES,)``."""
    spans = [world.trace.available_ns(client, 0, end, frozenset({state})) for state in STATES]
    return np.array(spans, dtype=np.float64) / max(end, 1)


def distances(left: Floats, right: Floats) -> Floats:
    """Total variation distances of clients' shares, both of shape ``(n, NUM_STATES)``; shape ``(n,)``."""
    return np.asarray(np.abs(left - right).sum(axis=1) / 2, dtype=np.float64)


def are_close(tvds: Floats) -> bool:
    """Whether clients' distances are small: on average, and for 95 % of them."""
    return float(tvds.mean()) <= MEAN_MOST and float(np.quantile(tvds, 0.95)) <= MOST_OF_MOST


def require_changes(run: Observed) -> None:
    """Check that the run tells when clients come and go.

    Raises:
        AbsentField: If no client ever changed its state, or the changes carry no state or no time.
    """
    table = run["avail_change"]
    for path in ("new", "engine_s"):
        if path not in table:
            raise AbsentField(f"avail_change.{path}")
