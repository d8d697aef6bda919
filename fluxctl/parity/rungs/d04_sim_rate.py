"""How fast a simulated run is: engine seconds per wall second."""

from __future__ import annotations

import math
from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import runs_of_mode, skip
from fluxctl.types import Mode

LEAST: Final = 0.01  # no upper bound: a light model on a virtual clock is thousands of times faster, rightly


def sim_rate(run: Observed) -> float | None:
    """Engine seconds per wall second between the first and the last cycle; inf if the wall stood still.

    Returns:
        None with fewer than two stamped cycles.

    Raises:
        AbsentField: If no cycle carries a stamp.
    """
    engine_s, wall_s = run.cycles.numbers("engine_s"), run.cycles.numbers("wall.wall_s")
    if len(engine_s) < 2:
        return None
    passed_s = float(wall_s[-1] - wall_s[0])
    return float(engine_s[-1] - engine_s[0]) / passed_s if passed_s else math.inf


def simulated_rates(left: Observed, right: Observed) -> list[float] | Finding:
    """The rate of each simulated run, or why there is nothing to judge."""
    simulated = list(runs_of_mode(Mode.SIM, left, right))
    if not simulated:
        return skip("neither run is simulated")
    rates = [rate for run in simulated if (rate := sim_rate(run)) is not None]
    return rates if len(rates) == len(simulated) else skip("a run has fewer than two cycles")


@rung(
    "D4",
    "K7",
    "sim_rate",
    stage="1",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Does the simulation make progress at a finite rate that is not tiny?",
    broken="The simulation's clock stands still or jumps without bound: it does not follow the work that is done.",
    needs=("D2",),
    is_timed=True,
)
def sim_rate_is_sane(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Engine seconds per wall second of each simulated run."""
    rates = simulated_rates(left, right)
    if isinstance(rates, Finding):
        return rates
    worst = next((rate for rate in rates if not math.isfinite(rate)), min(rates))
    is_sane = math.isfinite(worst) and worst >= LEAST
    return Finding(
        Status.PASS if is_sane else Status.FAIL,
        worst if math.isfinite(worst) else None,
        f">= {LEAST:g}, finite",
        min(len(run.cycles) for run in runs_of_mode(Mode.SIM, left, right)),
        f"{worst:.4g} engine seconds per wall second",
        {"sim_rates": [rate if math.isfinite(rate) else None for rate in rates]},
    )
