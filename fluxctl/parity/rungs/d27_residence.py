"""Whether as many slots stay in use when a cycle ends."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import skip, windows

MOST: Final = 0.3
FLOOR: Final = 0.5  # slots; below it a relative difference means nothing


@rung(
    "D27",
    "Sr",
    "residence",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are as many clients still at work when a cycle has ended?",
    broken="Clients occupy their slots for longer or shorter: the surplus of a cycle is not carried over alike.",
    needs=("D14",),
)
def residence(left: Observed, right: Observed, options: Options) -> Finding:
    """Difference of the mean slots in use after a cycle, over the larger mean or half a slot."""
    samples = [window.numbers("residence", "in_flight_after") for window in windows(left, right, options)]
    if not all(map(len, samples)):
        return skip("a run has no cycle within the bins that both completed")
    means = [float(sample.mean()) for sample in samples]
    difference = abs(means[0] - means[1]) / max(*means, FLOOR)
    evidence = Evidence.of(samples, f"{means[0]:.3g} and {means[1]:.3g} slots in use after a cycle, on average")
    return judged_bounds([Bound("", difference, MOST)], evidence)
