"""Whether runs ended when their budgets were used up.

What bounds a run on the wall clock, or one that charges measured compute, is its wall budget. What bounds a simulation
with modelled compute is its budget of engine time: it must begin no cycle after that, though the last one may end
later.
"""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import no_rows
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.runs.supervise import wall_ceiling_s
from fluxctl.types import JSON, NS_PER_S

MOST: Final = 0.2


@rung(
    "D75",
    "K5",
    "failsafe_ok",
    stage="9",
    tier=Tier.INV,
    role=Role.CONTROL,
    question="Did both runs end when their budget was used up?",
    broken="A run went on long after its budget: its stop rules do not work.",
    is_timed=True,
)
def failsafe_ok(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Largest overshoot of a budget, relative to it."""
    detail: dict[str, JSON] = {}
    overshoots = []
    for run in (left, right):
        if run.config is None:
            return skip(f"the budget of the {run.label} run is not known")
        if not len(run.cycles):
            return no_rows(f"the {run.label} run has no cycle")
        used_s, budget_s, clock = _spent(run)
        overshoots.append(max(0.0, used_s / budget_s - 1))
        detail[run.label] = {"clock": clock, "used_s": used_s, "budget_s": budget_s}
    worst = max(overshoots)
    return Finding(
        Status.PASS if worst <= MOST else Status.FAIL,
        worst,
        f"<= {MOST:g}",
        min(len(left.cycles), len(right.cycles)),
        f"the larger overshoot of a budget is {worst:.1%}",
        detail,
    )


def _spent(run: Observed) -> tuple[float, float, str]:
    """Seconds used and allowed, and on which clock."""
    assert run.config is not None
    is_on_wall = run.is_real or run.config.engine.charge_compute == "measured"
    if is_on_wall and "wall.wall_s" in run.cycles:
        return float(run.cycles.numbers("wall.wall_s")[-1]), wall_ceiling_s(run.config), "wall"
    ends_ns = run.cycles.ints("t_ns")
    last_begin_ns = int(ends_ns[-2]) if len(ends_ns) > 1 else 0
    return last_begin_ns / NS_PER_S, run.config.runtime_budget_s(), "engine"
