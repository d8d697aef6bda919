"""How much longer, or shorter, bins take than the slowest clients of their cycles."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import too_short, windows

MOST: Final = 0.10  # of the mean advance, as for the overhead itself


@rung(
    "D7",
    "K3a",
    "modeled_compute_advance",
    stage="1",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Once the modelled time of the slowest clients is taken out of the time per bin, is as much left in both?",
    broken="One run spends time besides what clients were modelled to take, or overlaps more of it, than the other.",
    needs=("D6", "D3"),
    is_timed=True,
)
def modeled_compute_advance(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean of (advance - slowest clients' modelled time) per bin, on each run's own clock."""
    real, sim = windows(left, right, options)
    if real.num_units < 2:
        return too_short(real.num_units)
    rests_s = [float((window.advances_s - window.modelled_s).mean()) for window in (real, sim)]
    mean_s = float(real.advances_s.mean())
    gap = abs(rests_s[0] - rests_s[1]) / mean_s if mean_s > 0 else 0.0
    return Finding(
        Status.PASS if gap <= MOST else Status.WARN,
        gap,
        f"<= {MOST:g} of the advance",
        real.num_units,
        f"beyond the modelled compute a bin takes {rests_s[0]:+.4g} s ({real.run.label}) and {rests_s[1]:+.4g} s "
        f"({sim.run.label})",
        {"rest_s": rests_s, "mean_advance_s": mean_s},
    )
