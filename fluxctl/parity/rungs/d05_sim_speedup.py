"""What simulating is worth: against real time, and against the real run of the pair."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.rungs.d04_sim_rate import simulated_rates
from fluxctl.parity.window import runs_of_mode, skip, windows
from fluxctl.types import Mode

BAR: Final = 0.98  # of real time, allowing for the clock's own grain


@rung(
    "D5",
    "sim_speedup",
    "sim_speedup",
    stage="1",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Is simulating at least as fast as waiting for the real thing?",
    broken="The simulation is slower than the system that it stands for, so there is little reason to use it.",
    needs=("D4",),
    is_timed=True,
)
def sim_speedup(left: Observed, right: Observed, options: Options) -> Finding:
    """The slowest simulated run's rate, and the wall time of the real run over that of its twin."""
    rates = simulated_rates(left, right)
    if isinstance(rates, Finding):
        return rates
    rate = min(rates)
    if rate == float("inf"):
        return skip("no wall time passed")
    real, sim = windows(left, right, options)
    speedup = None
    if real.run.is_real and not sim.run.is_real and sim.num_units and sim.run.wall_s[sim.num_units - 1] > 0:
        speedup = float(real.run.wall_s[real.num_units - 1] / sim.run.wall_s[sim.num_units - 1])
    against = "" if speedup is None else f"; {speedup:.4g} times as fast as the real run"
    return Finding(
        Status.PASS if rate >= BAR else Status.WARN,
        rate,
        f">= 1 (bar {BAR:g})",
        min(len(run.cycles) for run in runs_of_mode(Mode.SIM, left, right)),
        f"{rate:.4g} engine seconds per wall second{against}",
        {"wall_speedup": speedup},
    )
