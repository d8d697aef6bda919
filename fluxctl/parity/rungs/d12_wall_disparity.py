"""How far the real run's wall clock is from the other run's engine time, bin by bin."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip, too_short, windows


@rung(
    "D12",
    "wall_disparity",
    "wall_disparity",
    stage="1",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="How far does the wall clock of the real run drift from the simulated time, bin by bin?",
    broken="This one only reports: a large drift is time that the real run spent on what nobody modelled.",
    needs=("D11",),
    is_timed=True,
)
def wall_disparity(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean and greatest distance between wall time, in engine seconds, and the other run's engine time."""
    real, sim = windows(left, right, options)
    if not real.run.is_real:
        return skip("neither run was on the wall clock")
    if real.num_units < 2:
        return too_short(real.num_units)
    wall_s = real.run.wall_s[: real.num_units] * real.run.wall_factor
    other_s = sim.run.wall_s * sim.run.wall_factor if sim.run.is_real else sim.run.commit_s
    gaps_s = np.abs(wall_s - other_s[: sim.num_units])
    mean_s, worst_s = float(gaps_s.mean()), float(gaps_s.max())
    return Finding(
        Status.PASS,
        mean_s,
        "reported",
        real.num_units,
        f"wall and engine time differ by {mean_s:.4g} s on average and {worst_s:.4g} s at most",
        {"mean_s": mean_s, "max_s": worst_s, "at_bin": int(gaps_s.argmax()) + 1},
    )
