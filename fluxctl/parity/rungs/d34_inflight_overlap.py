"""Whether a client was ever in flight twice at once.

A contribution keeps its client busy from its dispatch until its commit, or until it is given up (see
:mod:`fluxctl.telemetry.residence`). With that, the engine's ledger allows no overlap at all; what is tolerated is for
streams of other writers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.telemetry.residence import Stays, stays_in_flight
from fluxctl.types import JSON, s_from_ns

MOST: Final = 0.02


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
        stays = _stays(run)
        overlaps, num_pairs = stays.overlaps, stays.num_pairs
        if not num_pairs:
            return skip(f"no client contributed twice in the {run.label} run")
        shares.append(len(overlaps) / num_pairs)
        counts.append(num_pairs)
        example: dict[str, JSON] = {}
        if len(overlaps):
            first = overlaps[0]
            example = {"client": int(stays.clients[first]), "at_s": s_from_ns(int(stays.starts_ns[first]))}
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


def _stays(run: Observed) -> Stays:
    cycles = run.cycles
    return stays_in_flight(
        np.asarray(cycles.lists("contributing_trainers").values, dtype=np.int64),
        np.asarray(cycles.lists("contributor_intervals[].dispatch").values, dtype=np.float64),
        np.asarray(cycles.lists("contributor_intervals[].commit").values, dtype=np.float64),
        run["abandon"],
    )
