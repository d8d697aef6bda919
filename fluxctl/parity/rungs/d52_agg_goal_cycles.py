"""Whether a cycle ever closed with more updates than its aggregation goal."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, RungFunction, Status, Tier
from fluxctl.parity.window import runs_of_mode, skip
from fluxctl.telemetry.columns import MISSING_INT, Ints
from fluxctl.types import Mode


def agg_goal_cycles(mode: Mode) -> RungFunction:
    """The check of the runs on one clock."""

    def check(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
        """Cycles whose number of contributions exceeds K, at their moment."""
        runs = list(runs_of_mode(mode, left, right))
        if not runs:
            return skip(f"neither run was on the {'wall' if mode is Mode.REAL else 'virtual'} clock")
        excess = []
        for run in runs:
            goals = _goals(run)
            if goals is None:
                return skip(f"the aggregation goal of the {run.label} run is not known")
            excess.append(run.cycles.ints("goal_count") - goals)
        num_over = int(sum((over > 0).sum() for over in excess))
        num_cycles = min(len(over) for over in excess)
        return Finding(
            Status.FAIL if num_over else Status.PASS,
            float(num_over),
            "= 0 cycles above K",
            num_cycles,
            f"{num_over} cycles closed with more than K updates; the largest excess is "
            f"{max((int(over.max()) for over in excess if len(over)), default=0)}"
            if num_over
            else "no cycle closed with more than K updates",
        )

    return check


def _goals(run: Observed) -> Ints | None:
    """K of each cycle, shape ``(num_cycles,)``; as configured where the events do not say."""
    if "goal" in run.cycles:
        goals = run.cycles.ints("goal")
        return None if (goals == MISSING_INT).any() else goals
    return None if run.goal is None else np.full(len(run.cycles), run.goal)


for _id, _mode in (("D52", Mode.REAL), ("D53", Mode.SIM)):
    rung(
        _id,
        "U4",
        f"agg_goal_cycles_{_mode.value}",
        stage="5",
        tier=Tier.EXACT,
        role=Role.MECHANISM,
        question=f"Does every cycle of the {_mode.value} run close with at most K updates?",
        broken=f"The {_mode.value} run committed more updates at once than its aggregation goal: "
        "versions and staleness are not what the condition says.",
    )(agg_goal_cycles(_mode))
