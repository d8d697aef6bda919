"""Whether clients are given as much time for a task in both runs."""

from __future__ import annotations

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.support import judged_support
from fluxctl.parity.window import windows


@rung(
    "D39",
    "T2",
    "training_budget",
    stage="4",
    tier=Tier.DIST,
    role=Role.CONTROL,
    question="Are clients granted as much time for their tasks in both runs?",
    broken="The simulation models longer tasks than the real run, so their times are not comparable.",
)
def training_budget(left: Observed, right: Observed, options: Options) -> Finding:
    """99th percentile of the modelled time of a task."""
    real, sim = windows(left, right, options)
    budgets = [window.numbers("trainer_round", "training_budget_s") for window in (real, sim)]
    return judged_support(budgets[0], budgets[1], "modelled time of a task")
