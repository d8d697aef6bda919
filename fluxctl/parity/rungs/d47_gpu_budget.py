"""Whether computing a step takes longer than it is modelled to."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, RungFunction, Status, Tier
from fluxctl.parity.window import per_client_share, runs_of_mode, skip
from fluxctl.types import Mode

MOST: Final = 0.25


def _check(mode: Mode) -> RungFunction:
    def check(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
        runs = list(runs_of_mode(mode, left, right))
        if not runs:
            return skip(f"neither run is {'on the wall clock' if mode is Mode.REAL else 'simulated'}")
        if not all(run.config is None or run.config.delays.enabled for run in runs):
            return skip("modelled durations are off, so there is no budget")
        shares = [_share(run) for run in runs]
        worst = max(shares)
        return Finding(
            Status.PASS if worst <= MOST else Status.FAIL,
            worst,
            f"<= {MOST:g}",
            min(len(run.updates) for run in runs),
            f"a client's step takes longer than its modelled time in {worst:.1%} of the cases, on average",
            {"shares": shares},
        )

    return check


def _share(run: Observed) -> float:
    """Share of steps whose compute exceeds the budget, averaged over clients.

    Raises:
        AbsentField: If compute or budget are not recorded.
    """
    budget_s = run.updates.numbers("training_budget_s")
    # On the wall clock a second of compute passes `wall_factor` seconds of engine time.
    compute_s = run.updates.numbers("wall.compute_s") * (run.wall_factor if run.is_real else 1.0)
    known = np.isfinite(compute_s) & np.isfinite(budget_s)
    shares = per_client_share(run.updates.ints("client")[known], (compute_s > budget_s)[known])
    return float(shares.mean()) if len(shares) else 0.0


for _id, _mode, _name, _broken in (
    (
        "D47",
        Mode.REAL,
        "gpu_budget_real",
        "This machine is too slow for the modelled clients: the real run is late everywhere, whatever is simulated.",
    ),
    (
        "D48",
        Mode.SIM,
        "gpu_budget_sim",
        "Steps cost more than the clients are modelled to need: the model promises times that no machine kept.",
    ),
):
    rung(
        _id,
        "T3",
        _name,
        stage="4",
        tier=Tier.INV,
        role=Role.MECHANISM,
        question=f"Do the {'real' if _mode is Mode.REAL else 'simulated'} run's steps fit into their modelled time?",
        broken=_broken,
        needs=("D39",),
        is_timed=True,
    )(_check(_mode))
