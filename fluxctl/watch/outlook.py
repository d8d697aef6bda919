"""What would end a run, and when: the stop rules read forwards, for people."""

from __future__ import annotations

from dataclasses import dataclass

from fluxctl.config.durations import show_duration
from fluxctl.policies.stopping import StopState
from fluxctl.policies.stopping.stall import last_progress_s, milestones
from fluxctl.types import Verdict


@dataclass(frozen=True, slots=True)
class Prospect:
    """One way in which a run may end.

    Attributes:
        verdict: How it would end.
        when: What is missing, with numbers.
        fraction: How far that is, 0 to 1.
    """

    verdict: Verdict
    when: str
    fraction: float


def prospects(state: StopState, engine_s: float) -> list[Prospect]:
    """The ways in which a run may end, in the order in which the rules are asked.

    Args:
        state: The stop rules now.
        engine_s: Engine time now.
    """
    found = [_target(state), _stall(state, engine_s), *_budgets(state, engine_s)]
    return [prospect for prospect in found if prospect is not None]


def idle_s(state: StopState, engine_s: float) -> float | None:
    """Engine seconds since the last progress; None without a stall rule, or before the first evaluation."""
    limits = state.conditions.limits
    since_s = last_progress_s(limits, state.memories.get("stall", {}))
    return None if limits.stall_window_s is None or since_s is None else engine_s - since_s


def _target(state: StopState) -> Prospect | None:
    limits = state.conditions.limits
    if limits.target_accuracy is None:
        return None
    streak = int(state.memories.get("target", {}).get("streak", 0))
    missing = limits.converge_window - streak
    bins = "bin" if missing == 1 else "bins"
    when = (
        f"{missing} more {bins} in a row at {limits.target_accuracy:g} or above ({streak} of {limits.converge_window})"
    )
    return Prospect(Verdict.CONVERGED, when, streak / limits.converge_window)


def _stall(state: StopState, engine_s: float) -> Prospect | None:
    limits = state.conditions.limits
    waited_s = idle_s(state, engine_s)
    if limits.stall_window_s is None:
        return None
    if waited_s is None:
        return Prospect(Verdict.STALLED, f"{show_duration(limits.stall_window_s)} without progress", 0.0)
    needed = {"acc": "accuracy reaches {:.3f}", "loss": "loss falls to {:.4g}"}
    signals = milestones(limits, state.memories["stall"])
    escapes = " or ".join(needed[signal].format(found.next_value) for signal, found in signals.items())
    left_s = max(0.0, limits.stall_window_s - waited_s)
    at = show_duration(round(engine_s + left_s))
    when = f"at {at} of engine time, in {show_duration(round(left_s))}, unless {escapes}"
    return Prospect(Verdict.STALLED, when, min(1.0, waited_s / limits.stall_window_s))


def _budgets(state: StopState, engine_s: float) -> list[Prospect | None]:
    conditions, limits = state.conditions, state.conditions.limits
    verdict = Verdict.COMPLETED if limits.target_accuracy is None else Verdict.DID_NOT_CONVERGE
    bins, rounds = (state.last.bins, state.last.round) if state.last is not None else (0, 0)
    budget_s = conditions.budget_s
    return [
        None
        if limits.max_bins is None
        else Prospect(verdict, f"{bins} of {limits.max_bins} bins", bins / limits.max_bins),
        None
        if limits.max_rounds is None
        else Prospect(verdict, f"{rounds} of {limits.max_rounds} rounds", rounds / limits.max_rounds),
        Prospect(
            verdict,
            f"{show_duration(round(engine_s))} of {show_duration(budget_s)} of engine time",
            min(1.0, engine_s / budget_s),
        ),
    ]
