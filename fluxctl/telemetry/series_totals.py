"""Totals of a reduced run: what was sent, where the time went, who worked how much. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.telemetry.series_build import ints, labels
from fluxctl.telemetry.series_rows import Bools, Cycles, Updates
from fluxctl.telemetry.tables import Floats, Ints, Table

_MAX_CLIENT: Final = 1 << 24  # a larger id is damage, and arrays by client must not follow it


@dataclass(frozen=True, slots=True)
class MessageKind:
    """Messages of one kind in one direction.

    Attributes:
        direction: ``down`` to clients, ``up`` from them.
        kind: What they carry.
        count: How many.
        total_bytes: Together.
        min_bytes: The smallest.
        max_bytes: The largest.
    """

    direction: str
    kind: str
    count: int
    total_bytes: int
    min_bytes: int
    max_bytes: int

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        return self.total_bytes / self.count


@dataclass(frozen=True, slots=True)
class WallSplit:
    """Where the aggregator's wall time went, seconds; the parts add up to the whole.

    Attributes:
        aggregate_s: Gate, aggregation, server step.
        eval_s: Evaluation.
        wait_s: Waiting for updates, from a cycle's first dispatch to its last arrival.
        rest_s: What is left: selection, dispatch, records.
        total_s: From the first dispatch to the end of the last cycle.
    """

    aggregate_s: float
    eval_s: float
    wait_s: float
    rest_s: float
    total_s: float


def messages_of(comm: Table) -> tuple[MessageKind, ...]:
    """Messages by direction and kind, down first."""
    direction, kind, size = labels(comm, "direction"), labels(comm, "payload"), ints(comm, "bytes", 0)
    found = []
    for way in sorted(direction.names):
        for code, name in [*enumerate(kind.names), (-1, "unknown")]:
            sizes = size[direction.equals(way) & (kind.codes == code)]
            if len(sizes):
                found.append(MessageKind(way, name, len(sizes), int(sizes.sum()), int(sizes.min()), int(sizes.max())))
    return tuple(found)


def busy_frac(updates: Updates, num_clients: int, engine_s: float) -> Floats:
    """Share of the run that each client computed, shape ``(num_clients,)``."""
    known = is_client(updates.client) & np.isfinite(updates.duration_s)
    busy_s = np.bincount(updates.client[known], weights=updates.duration_s[known], minlength=num_clients)
    # a client that was given up and asked again may have computed twice at once
    return np.minimum(busy_s / engine_s, 1.0) if engine_s > 0 else np.zeros(num_clients)


def is_client(ids: Ints) -> Bools:
    """Which ids can be a client's."""
    return np.asarray((ids >= 0) & (ids < _MAX_CLIENT))


def wall_split(cycles: Cycles) -> WallSplit:
    """The aggregator's wall time in parts, nan without a cycle that recorded it."""
    known = cycles.wall_s[np.isfinite(cycles.wall_s)]
    if not len(known):
        return WallSplit(*[float("nan")] * 5)
    total_s = float(known[-1])
    aggregate_s, eval_s, waited_s = (
        float(np.nansum(part)) for part in (cycles.aggregate_s, cycles.eval_s, cycles.wait_s)
    )
    wait_s = max(0.0, min(waited_s, total_s - aggregate_s - eval_s))
    return WallSplit(aggregate_s, eval_s, wait_s, total_s - aggregate_s - eval_s - wait_s, total_s)
