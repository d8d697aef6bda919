"""How much time per bin the real run needs that the other does not."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import too_short, windows

MOST: Final = 0.10


@rung(
    "D8",
    "K3b",
    "overhead_residual",
    stage="1",
    tier=Tier.EXACT,
    role=Role.MECHANISM,
    question="Does a bin take as long on the real clock as on the simulated one, up to an overhead of 10 %?",
    broken="The real system needs time that the simulation does not charge (or the reverse): simulated times are off.",
    needs=("D6", "D3"),
    is_timed=True,
    is_clock_rung=True,
)
def overhead_residual(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative difference of the mean advance per bin; beside it, what that is per update."""
    real, sim = windows(left, right, options)
    if real.num_units < 2:
        return too_short(real.num_units)
    real_s, sim_s = float(real.advances_s.mean()), float(sim.advances_s.mean())
    gap = abs(real_s - sim_s) / real_s if real_s > 0 else float(sim_s > 0)
    num_updates = int(real.run.cycles.lists("contributing_trainers").lengths[real.in_cycle].sum())
    wall_s = float(real.run.wall_s[real.num_units - 1]) * real.run.wall_factor / real.num_units
    return Finding(
        Status.PASS if gap <= MOST else Status.FAIL,
        gap,
        f"<= {MOST:g}",
        real.num_units,
        f"a bin takes {real_s:.4g} s ({real.run.label}) and {sim_s:.4g} s ({sim.run.label})",
        {
            "advance_s": [real_s, sim_s],
            "per_update_s": (real_s - sim_s) * real.num_units / num_updates if num_updates else None,
            "wall_advance_s": wall_s if real.run.is_real else None,
        },
    )
