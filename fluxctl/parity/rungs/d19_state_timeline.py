"""Whether each client is in the same state at the same time in both runs."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import num_clients, observed_states, require_changes
from fluxctl.parity.window import skip, windows

LEAST: Final = 0.95
NUM_STEPS: Final = 20


@rung(
    "D19",
    "A5",
    "state_timeline",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is each client available, or away, at the same moments of both runs?",
    broken="At a given moment different clients are available in the two runs, even if they are equally many.",
)
def state_timeline(left: Observed, right: Observed, options: Options) -> Finding:
    """Share of (client, moment) at which both runs tell the same state, in the middle of 20 equal spans."""
    real, sim = windows(left, right, options)
    for window in (real, sim):
        require_changes(window.run)
    end = min(real.end_ns, sim.end_ns)
    if end == 0:
        return skip("the runs have no completed bin in common")
    logs = [observed_states(window.run, end) for window in (real, sim)]
    clients = range(min(num_clients(real.run), num_clients(sim.run)))
    times = ((np.arange(NUM_STEPS) + 0.5) / NUM_STEPS * end).astype(np.int64)
    n = len(clients) * NUM_STEPS
    threshold = f">= {LEAST:g}"
    if n < MIN_SAMPLES:
        return Finding(Status.INCONCLUSIVE, None, threshold, n, "there are no clients", {"min_samples": MIN_SAMPLES})
    same = np.array([logs[0].at(client, times) == logs[1].at(client, times) for client in clients])
    share = float(same.mean())
    return Finding(
        Status.PASS if share >= LEAST else Status.FAIL,
        share,
        threshold,
        n,
        f"{share:.1%} of clients' states agree over {NUM_STEPS} moments",
        {"by_moment": [float(value) for value in same.mean(axis=0)]},
    )
