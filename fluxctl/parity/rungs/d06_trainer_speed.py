"""Whether clients are as fast in both runs."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.support import judged_support
from fluxctl.parity.window import windows

MOST_KS: Final = 0.1


@rung(
    "D6",
    "P3",
    "trainer_speed",
    stage="1",
    tier=Tier.DIST,
    role=Role.CONTROL,
    question="Are the clients whose updates were committed modelled to be as fast in both runs?",
    broken="The two runs do not have the same clients, so nothing else about them can be compared.",
)
def trainer_speed(left: Observed, right: Observed, options: Options) -> Finding:
    """99th percentile of modelled durations; a different shape below it is a warning."""
    real, sim = windows(left, right, options)
    return judged_support(
        real.pooled("agg_round", "trainer_speed_s"),
        sim.pooled("agg_round", "trainer_speed_s"),
        "modelled durations of committed updates",
        warn_ks=MOST_KS,
    )
