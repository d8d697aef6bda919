"""Whether the simulation makes clients compute more for each update that counts."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import Window, require_rows, skip, windows

MOST_EXCESS: Final = 0.25


@rung(
    "D35",
    "W1",
    "compute_conservation",
    stage="3",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Do clients start about as many tasks for each update that counts in the simulation as in the real run?",
    broken="The simulation throws work away and does it again: its cost figures are too high.",
    needs=("D34",),
)
def compute_conservation(left: Observed, right: Observed, options: Options) -> Finding:
    """Dispatches per contribution; only more of them in the simulation than in reality is a fault."""
    real, sim = windows(left, right, options)
    starts_real, starts_sim = _starts_per_contribution(real), _starts_per_contribution(sim)
    if starts_real is None or starts_sim is None:
        return skip("no update was committed in the bins that both runs completed")
    excess = starts_sim / starts_real - 1
    return Finding(
        Status.PASS if excess <= MOST_EXCESS else Status.FAIL,
        excess,
        f"<= {MOST_EXCESS:g}",
        min(int(real.in_cycle.sum()), int(sim.in_cycle.sum())),
        f"{starts_real:.3g} tasks were started for each update that counts in the {real.run.label} run, "
        f"{starts_sim:.3g} in the {sim.run.label} run",
        {real.run.label: starts_real, sim.run.label: starts_sim},
    )


def _starts_per_contribution(window: Window) -> float | None:
    require_rows(window.run["dispatch"])
    num_contributions = float(window.numbers("agg_round", "goal_count").sum())
    num_starts = int((window.run["dispatch"].ints("t_ns") < window.end_ns).sum())
    return num_starts / num_contributions if num_contributions else None
