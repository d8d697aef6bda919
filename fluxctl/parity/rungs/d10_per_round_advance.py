"""Whether bins take as long, one by one, on both clocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import too_short, windows
from fluxctl.telemetry.columns import Floats

MOST_KS: Final = 0.2
MOST_REL: Final = 0.15
# A real clock is a few milliseconds off everywhere, and modelled durations repeat: a plain KS would count that as a
# difference of whole steps. What K2 forgives in the rate is forgiven here in each duration.
TOLERANCE: Final = 0.05


@rung(
    "D10",
    "K3",
    "per_round_advance",
    stage="1",
    tier=Tier.EXACT,
    role=Role.MECHANISM,
    question="Are the times that bins take distributed alike on both clocks?",
    broken="Some bins take much longer, or shorter, in reality than in the simulation, even if the total is right.",
    needs=("D8",),
    is_timed=True,
    is_clock_rung=True,
)
def per_round_advance(left: Observed, right: Observed, options: Options) -> Finding:
    """KS distance of the advances per bin, and the relative difference of their means."""
    real, sim = windows(left, right, options)
    if real.num_units < 2:
        return too_short(real.num_units)
    distance = tolerant_ks(real.advances_s, sim.advances_s)
    gap = relative(float(sim.advances_s.mean()), float(real.advances_s.mean()))
    evidence = Evidence(
        real.num_units,
        sim.num_units,
        f"advances per bin: D = {distance:.3g} (shifts of up to {TOLERANCE:.0%} forgiven), means {gap:.1%} apart",
        {"ks": distance, "mean_rel": gap, "mean_s": [float(real.advances_s.mean()), float(sim.advances_s.mean())]},
    )
    return judged_bounds([Bound("", distance, MOST_KS), Bound("mean rel", gap, MOST_REL)], evidence, min_samples=2)


def tolerant_ks(left: Floats, right: Floats, tolerance: float = TOLERANCE) -> float:
    """Kolmogorov-Smirnov distance that forgives a relative shift of every value.

    The largest share by which one sample has more values up to a point than the other has up to ``1 + tolerance``
    times that point: the Lévy distance's idea on a logarithmic axis, and the plain distance for a tolerance of 0.

    Args:
        left: At least one value, not negative, shape ``(n,)``.
        right: The same, shape ``(m,)``.
        tolerance: Shift that is no difference.
    """
    return max(_excess(left, right, tolerance), _excess(right, left, tolerance))


def _excess(sample: Floats, other: Floats, tolerance: float) -> float:
    ordered, reference = np.sort(sample), np.sort(other)
    own = np.searchsorted(ordered, ordered, side="right") / len(ordered)
    reach = ordered * (1 + tolerance * (1 + 1e-9))  # a shift of just the tolerance is forgiven, whatever its rounding
    others = np.searchsorted(reference, reach, side="right") / len(reference)
    return float(np.max(own - others, initial=0.0))
