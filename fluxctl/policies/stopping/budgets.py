"""Budgets: bins, rounds and engine time. Using one up is a normal end.

Without a target the run has done what was asked (COMPLETED); with one it has missed it (DID_NOT_CONVERGE); without a
single committed bin there is no result at all (NO_ROUNDS).
"""

from __future__ import annotations

from fluxctl.policies.stopping.base import Memory, Outcome, StopView, stop_rule
from fluxctl.types import Verdict


def _spent(view: StopView, reason: str) -> tuple[Verdict, str]:
    if view.bins == 0:
        return Verdict.NO_ROUNDS, f"{reason}, and no bin was committed"
    if view.conditions.limits.target_accuracy is None:
        return Verdict.COMPLETED, reason
    return Verdict.DID_NOT_CONVERGE, f"{reason} before the target was held"


@stop_rule("max_bins", order=30)
def max_bins(memory: Memory, view: StopView) -> Outcome:
    """End after a number of committed bins."""
    limit = view.conditions.limits.max_bins
    if limit is None or view.bins < limit:
        return memory, None
    return memory, _spent(view, f"the bin budget ({limit}) is used up")


@stop_rule("max_rounds", order=31)
def max_rounds(memory: Memory, view: StopView) -> Outcome:
    """End after a number of passes over all bins."""
    limit = view.conditions.limits.max_rounds
    if limit is None or view.rounds < limit:
        return memory, None
    return memory, _spent(view, f"the round budget ({limit}) is used up")


@stop_rule("max_runtime", order=32)
def max_runtime(memory: Memory, view: StopView) -> Outcome:
    """End when the engine's clock reaches the budget."""
    if view.engine_s < view.conditions.budget_s:
        return memory, None
    return memory, _spent(view, f"the engine-time budget ({view.conditions.budget_s:g} s) is used up")
