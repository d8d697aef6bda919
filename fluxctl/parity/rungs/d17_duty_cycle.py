"""Which part of all changes of availability makes a client available."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import require_changes
from fluxctl.parity.window import Window, windows
from fluxctl.types import Availability

MOST: Final = 0.2


@rung(
    "D17",
    "A4",
    "duty_cycle",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Of all changes of clients' availability, do as many in both runs make a client available?",
    broken="One run's clients leave more often than they come back, compared with the other's.",
    needs=("D16",),
)
def duty_cycle(left: Observed, right: Observed, options: Options) -> Finding:
    """Share of transitions into each available state: the largest difference."""
    real, sim = windows(left, right, options)
    shares = [_shares(window) for window in (real, sim)]
    n = min(int(window.rows("avail_change").sum()) for window in (real, sim))
    threshold = f"<= {MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} changes of availability, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    gaps = {state: abs(shares[0][state] - shares[1][state]) for state in shares[0]}
    worst = max(gaps, key=gaps.__getitem__)
    return Finding(
        Status.PASS if gaps[worst] <= MOST else Status.FAIL,
        gaps[worst],
        threshold,
        n,
        f"changes into {worst}: {shares[0][worst]:.3f} and {shares[1][worst]:.3f} of all",
        {"shares": [shares[0], shares[1]]},
    )


def _shares(window: Window) -> dict[str, float]:
    """Share of changes into each available state, and into any of them.

    Raises:
        AbsentField: If no client ever changed its state.
    """
    require_changes(window.run)
    within = window.rows("avail_change")
    states = (Availability.AVL_TRAIN.value, Availability.AVL_EVAL.value)
    labels = window.run["avail_change"].labels("new")
    counts = {state: int(labels.equals(state)[within].sum()) for state in states}
    num = max(int(within.sum()), 1)
    return {"any available state": sum(counts.values()) / num} | {state: count / num for state, count in counts.items()}
