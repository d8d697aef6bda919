"""How much the work of clients overlaps: modelled time of the slowest over the time that passed."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import Window, skip, too_short, windows

MOST: Final = 0.3


@rung(
    "D9",
    "K4",
    "overlap_factor",
    stage="1",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Do clients work side by side to the same degree in both runs?",
    broken="One run lets clients work in parallel where the other makes them wait for each other.",
    needs=("D6", "D3"),
    is_timed=True,
    is_clock_rung=True,
)
def overlap_factor(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean modelled time of the slowest clients of a bin over the mean advance; 1 = no overlap between cycles."""
    real, sim = windows(left, right, options)
    if real.num_units < 2:
        return too_short(real.num_units)
    factors = [_factor(window) for window in (real, sim)]
    if factors[0] is None or factors[1] is None:
        return skip("a run's clock did not advance")
    gap = abs(factors[0] - factors[1])
    return Finding(
        Status.PASS if gap <= MOST else Status.WARN,
        gap,
        f"<= {MOST:g}",
        real.num_units,
        f"overlap of {factors[0]:.3f} ({real.run.label}) and {factors[1]:.3f} ({sim.run.label})",
        {"factors": factors},
    )


def _factor(window: Window) -> float | None:
    advance_s = float(window.advances_s.mean())
    return float(window.modelled_s.mean()) / advance_s if advance_s > 0 else None
