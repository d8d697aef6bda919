"""Whether a client was ever in flight twice at once.

A contribution keeps its client busy from its dispatch to its commit. A client that was given up is free again at that
moment: if its late update is accepted after all, ``contributor_intervals`` shows it from the first dispatch to the late
commit, although the client may have been asked again in between (the engine asks it again only once its late update has
come or its work has been stopped, and then the commit of the late update may still lie ahead). So an interval that an
``abandon`` event cuts short ends there. With that, the engine's ledger allows no overlap at all; what is tolerated is
for streams of other writers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.telemetry.columns import Floats, Ints
from fluxctl.types import JSON, NS_PER_S

MOST: Final = 0.02
_RESOLUTION_S: Final = 1e-9


@rung(
    "D34",
    "R1",
    "inflight_overlap",
    stage="3",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Is every client busy with one task at a time, until its update has been committed?",
    broken="A client was given new work while its last update was still waiting: it counts twice, and slots are wrong.",
    needs=("D31",),
)
def inflight_overlap(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Share of a client's consecutive contributions that overlap in time, in the worse of both runs."""
    detail: dict[str, JSON] = {}
    shares, counts = [], []
    for run in (left, right):
        clients, starts, ends = _intervals(run)
        overlaps, num_pairs = _overlaps(clients, starts, ends)
        if not num_pairs:
            return skip(f"no client contributed twice in the {run.label} run")
        shares.append(len(overlaps) / num_pairs)
        counts.append(num_pairs)
        example = {} if not len(overlaps) else {"client": int(clients[overlaps[0]]), "at_s": float(starts[overlaps[0]])}
        detail[run.label] = {"share": shares[-1], "num_overlaps": len(overlaps), "num_pairs": num_pairs, **example}
    worst = max(shares)
    return Finding(
        Status.PASS if worst <= MOST else Status.FAIL,
        worst,
        f"<= {MOST:g}",
        min(counts),
        f"{worst:.2%} of a client's consecutive contributions overlap in the worse run",
        detail,
    )


def _intervals(run: Observed) -> tuple[Ints, Floats, Floats]:
    """Client, start and end in engine seconds of each contribution, by client and then by start."""
    cycles = run.cycles
    clients = np.asarray(cycles.lists("contributing_trainers").values, dtype=np.int64)
    starts = np.asarray(cycles.lists("contributor_intervals[].dispatch").values, dtype=np.float64)
    ends = np.array(cycles.lists("contributor_intervals[].commit").values, dtype=np.float64)
    given_up = _given_up(run)
    if given_up:
        keys = zip(clients.tolist(), starts.tolist(), strict=True)
        ends = np.minimum(ends, [given_up.get(key, np.inf) for key in keys])
    order = np.lexsort((starts, clients))
    return clients[order], starts[order], ends[order]


def _given_up(run: Observed) -> dict[tuple[int, float], float]:
    """When a slot was freed without an update, by client and start of the dispatch in seconds."""
    abandons = run["abandon"]
    if not len(abandons):
        return {}
    columns = (abandons.ints(path) for path in ("client", "dispatch_ns", "t_ns"))
    return {
        (client, dispatch_ns / NS_PER_S): at_ns / NS_PER_S
        for client, dispatch_ns, at_ns in zip(*(column.tolist() for column in columns), strict=True)
    }


def _overlaps(clients: Ints, starts: Floats, ends: Floats) -> tuple[NDArray[np.intp], int]:
    """Positions of contributions that begin before their client's last one has ended; and how many have a last one."""
    has_last = clients[1:] == clients[:-1]
    begins_early = starts[1:] < ends[:-1] - _RESOLUTION_S
    return np.flatnonzero(has_last & begins_early) + 1, int(has_last.sum())
