"""How much time per bin the real run needs that the other does not."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import block_bootstrap_mean
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
    low_s, high_s = block_bootstrap_mean(real.advances_s - sim.advances_s)  # what is late once makes the next bin early
    num_updates = int(real.run.cycles.lists("contributing_trainers").lengths[real.in_cycle].sum())
    wall_s = float(real.run.wall_s[real.num_units - 1]) * real.run.wall_factor / real.num_units
    evidence = Evidence(
        real.num_units,
        sim.num_units,
        f"a bin takes {real_s:.4g} s ({real.run.label}) and {sim_s:.4g} s ({sim.run.label}), {real_s - sim_s:+.3g} s "
        f"({low_s:+.3g} to {high_s:+.3g} with 95 % confidence)",
        {
            "advance_s": [real_s, sim_s],
            "difference_interval_s": [low_s, high_s],
            "per_update_s": (real_s - sim_s) * real.num_units / num_updates if num_updates else None,
            "wall_advance_s": wall_s if real.run.is_real else None,
        },
    )
    return judged_bounds([Bound("", gap, MOST)], evidence, min_samples=2)
