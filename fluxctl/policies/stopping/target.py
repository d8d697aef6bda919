"""CONVERGED: the accuracy held the target over a window of bins.

A window, because on a small test set one lucky bin is no convergence.
"""

from __future__ import annotations

from fluxctl.policies.stopping.base import Memory, Outcome, StopView, stop_rule
from fluxctl.types import Verdict


@stop_rule("target", order=20)
def target(memory: Memory, view: StopView) -> Outcome:
    """Count bins in a row at or above the target.

    The untrained model is no bin, and a bin that is evaluated twice counts once.
    """
    limits, point = view.conditions.limits, view.point
    if limits.target_accuracy is None or point is None or point.bins <= memory.get("bins", 0):
        return memory, None
    streak = memory.get("streak", 0) + 1 if point.accuracy >= limits.target_accuracy else 0
    memory = {"bins": point.bins, "streak": streak}
    if streak < limits.converge_window:
        return memory, None
    return memory, (
        Verdict.CONVERGED,
        f"accuracy was at least {limits.target_accuracy:g} for {limits.converge_window} bins in a row,"
        f" up to bin {point.bins}",
    )
