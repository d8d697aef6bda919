"""Stays in flight: from when to when a client was busy with one contribution, and whether two of them overlap.

A contribution keeps its client busy from its dispatch to its commit. A client that was given up is free again at that
moment: if its late update is accepted after all, ``contributor_intervals`` shows it from the first dispatch to the late
commit, although the client may have been asked again in between (the engine asks it again only once its late update has
come or its work has been stopped, and then the commit of the late update may still lie ahead). So a stay that an
``abandon`` event cuts short ends there. Shared by the self-checks of a run and by parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.telemetry.tables import Floats, Ints, Kind, Table
from fluxctl.types import NS_PER_S

ABANDON: Final = {"t_ns": Kind.INT, "client": Kind.INT, "dispatch_ns": Kind.INT}  # what is needed of ``abandon`` events


@dataclass(frozen=True, slots=True)
class Stays:
    """Stays in flight, by client and then by start.

    Attributes:
        clients: Who, shape ``(n,)``.
        starts_ns: Engine time of the dispatch, shape ``(n,)``.
        ends_ns: Engine time of the commit, or of the moment when the client was given up, shape ``(n,)``.
    """

    clients: Ints
    starts_ns: Ints
    ends_ns: Ints

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def num_pairs(self) -> int:
        """Stays whose client has an earlier one."""
        return int((self.clients[1:] == self.clients[:-1]).sum())

    @property
    def overlaps(self) -> NDArray[np.intp]:
        """Positions of the stays that begin before their client's last one has ended."""
        has_last = self.clients[1:] == self.clients[:-1]
        return np.flatnonzero(has_last & (self.starts_ns[1:] < self.ends_ns[:-1])) + 1


def stays_in_flight(clients: Ints, dispatch_s: Floats, commit_s: Floats, abandons: Table) -> Stays:
    """Stays of contributions, in any order.

    Args:
        clients: Who contributed, shape ``(n,)``.
        dispatch_s: Engine seconds, shape ``(n,)``.
        commit_s: Engine seconds, shape ``(n,)``.
        abandons: The ``abandon`` events with the fields of :data:`ABANDON`; may be empty.
    """
    starts, ends = _whole_ns(dispatch_s), _whole_ns(commit_s)
    given_up = _given_up(abandons)
    if given_up:
        keys = zip(clients.tolist(), starts.tolist(), strict=True)
        ends = np.array([min(end, given_up.get(key, end)) for key, end in zip(keys, ends.tolist(), strict=True)])
    order = np.lexsort((starts, clients))
    return Stays(clients[order], starts[order], ends[order])


def _given_up(abandons: Table) -> dict[tuple[int, int], int]:
    """When a slot was freed without an update, by client and dispatch."""
    if not len(abandons):
        return {}
    clients, dispatches, ends = (abandons.ints(path).tolist() for path in ("client", "dispatch_ns", "t_ns"))
    found: dict[tuple[int, int], int] = {}
    for client, dispatch, end in zip(clients, dispatches, ends, strict=True):
        found[client, dispatch] = min(end, found.get((client, dispatch), end))
    return found


def _whole_ns(seconds: Floats) -> Ints:
    """Engine time is whole nanoseconds; events that tell it in seconds are rounded back to them."""
    return np.rint(np.asarray(seconds, dtype=np.float64) * NS_PER_S).astype(np.int64)
