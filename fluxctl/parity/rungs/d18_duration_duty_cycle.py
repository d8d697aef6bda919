"""How much of their time clients spend in each state of availability."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import (
    MEAN_MOST,
    MOST_OF_MOST,
    are_close,
    distances,
    num_clients,
    observed_states,
    require_changes,
)
from fluxctl.parity.window import skip, windows


@rung(
    "D18",
    "A4dur",
    "duration_duty_cycle",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is each client available for the same share of the time in both runs?",
    broken="Clients are away for longer in one run than in the other, so it trains with another population.",
    needs=("D16",),
)
def duration_duty_cycle(left: Observed, right: Observed, options: Options) -> Finding:
    """Total variation distance of each client's time in states, over the span that both runs cover."""
    real, sim = windows(left, right, options)
    for window in (real, sim):
        require_changes(window.run)
    end = min(real.end_ns, sim.end_ns)
    if end == 0:
        return skip("the runs have no completed bin in common")
    logs = [observed_states(window.run, end) for window in (real, sim)]
    n = min(num_clients(real.run), num_clients(sim.run))
    threshold = f"mean <= {MEAN_MOST:g}, 95 % of clients <= {MOST_OF_MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} clients, at least {MIN_SAMPLES} are needed"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    shares = [np.array([log.shares(client, end) for client in range(n)]) for log in logs]
    tvds = distances(shares[0], shares[1])
    mean, high = float(tvds.mean()), float(np.quantile(tvds, 0.95))
    return Finding(
        Status.PASS if are_close(tvds) else Status.FAIL,
        mean,
        threshold,
        n,
        f"clients' time in states differs by {mean:.3f} on average, by {high:.3f} or less for 95 % of them",
        {"q95": high, "worst_client": int(tvds.argmax()), "worst": float(tvds.max())},
    )
