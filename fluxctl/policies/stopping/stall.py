"""STALLED: nothing has got better for a window of engine time, so going on would only spend it.

Progress is measured from milestones, not from the evaluation before. An accuracy counts when it is a whole
``stall_min_delta`` above the last milestone, a loss when it is a share ``loss_min_rel_delta`` below it; then it becomes
the milestone, and the window starts again. So one noisy evaluation resets nothing: a dip and its recovery stay below
the milestone, and gains smaller than the delta count once they have added up to it. Loss is looked at beside accuracy
because it still falls while accuracy, on a small test set, stands still.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fluxctl.config.durations import show_duration
from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping.base import EvalPoint, Memory, Outcome, StopView, stop_rule
from fluxctl.types import Verdict

ACCURACY: Final = "acc"
LOSS: Final = "loss"
_TOLERANCE: Final = 1e-9  # accuracies are quotients: 0.82 - 0.81 must count as 0.01 (relative to the milestone)


@dataclass(frozen=True, slots=True)
class Milestone:
    """Where one signal made its last progress.

    Attributes:
        value: The milestone.
        at_s: Engine time of the progress.
        best: The best value so far; better than the milestone by less than the delta.
        next_value: What counts as the next progress.
    """

    value: float
    at_s: float
    best: float
    next_value: float


def milestones(limits: LimitsConfig, memory: Memory) -> Mapping[str, Milestone]:
    """The signals that are watched and have been seen, by name (``acc``, ``loss``).

    Args:
        limits: The limits of the run.
        memory: What the stall rule remembers.
    """
    found = {}
    for signal in (ACCURACY, LOSS):
        if limits.stall_on in (signal, "either") and f"{signal}_s" in memory:
            value = memory[signal]
            wanted = next_accuracy(limits, value) if signal == ACCURACY else next_loss(limits, value)
            found[signal] = Milestone(value, memory[f"{signal}_s"], memory[f"{signal}_best"], wanted)
    return found


def next_accuracy(limits: LimitsConfig, milestone: float) -> float:
    """The accuracy that counts as progress beyond ``milestone``."""
    return milestone + limits.stall_min_delta


def next_loss(limits: LimitsConfig, milestone: float) -> float:
    """The loss that counts as progress below ``milestone``.

    A share of a loss of 0 or less would point the wrong way or nowhere, so the drop is a share of its size, and of 1
    at 0.
    """
    return milestone - limits.loss_min_rel_delta * (abs(milestone) or 1.0)


def last_progress_s(limits: LimitsConfig, memory: Memory) -> float | None:
    """Engine time of the last progress of any watched signal; None while nothing was measured."""
    return max((milestone.at_s for milestone in milestones(limits, memory).values()), default=None)


@stop_rule("stall", order=25)
def stall(memory: Memory, view: StopView) -> Outcome:
    """End after a window of engine time without progress.

    It is judged at every evaluation and between them, because a bin that never commits is no progress either. What is
    not finite is neither progress nor a milestone, and a signal that was never measured is not held against the run:
    its clock starts with its first finite value.
    """
    limits = view.conditions.limits
    if limits.stall_window_s is None:
        return memory, None
    if view.point is not None:
        memory = _remember(limits, memory, view.point)
    since_s = last_progress_s(limits, memory)
    if since_s is None or view.engine_s - since_s < limits.stall_window_s:
        return memory, None
    return memory, (Verdict.STALLED, _reason(limits, memory, view.engine_s - since_s))


def _remember(limits: LimitsConfig, memory: Memory, point: EvalPoint) -> Memory:
    if not point.finite:
        return memory
    accuracy = _advance(memory, ACCURACY, point.accuracy, point.engine_s, 1.0, limits)
    return _advance(accuracy, LOSS, point.loss, point.engine_s, -1.0, limits)


def _advance(
    memory: Memory, signal: str, value: float, engine_s: float, direction: float, limits: LimitsConfig
) -> Memory:
    """Take in one reading; ``direction`` is 1 if larger is better and -1 if smaller is."""
    if not math.isfinite(value):
        return memory
    if signal not in memory:
        return {**memory, signal: value, f"{signal}_best": value, f"{signal}_s": engine_s}
    best = max(memory[f"{signal}_best"] * direction, value * direction) * direction
    milestone = memory[signal]
    wanted = next_accuracy(limits, milestone) if signal == ACCURACY else next_loss(limits, milestone)
    if (value - wanted) * direction >= -_TOLERANCE * abs(milestone):
        return {**memory, signal: value, f"{signal}_best": best, f"{signal}_s": engine_s}
    return {**memory, f"{signal}_best": best}


def _reason(limits: LimitsConfig, memory: Memory, idle_s: float) -> str:
    told = {
        ACCURACY: "accuracy did not gain {:g} on {:.3f}",
        LOSS: "loss did not fall {:g} % below {:.4g}",
    }
    parts = [
        told[signal].format(
            limits.stall_min_delta if signal == ACCURACY else 100 * limits.loss_min_rel_delta, found.value
        )
        for signal, found in milestones(limits, memory).items()
    ]
    window = show_duration(limits.stall_window_s or 0.0)
    return f"no progress for {show_duration(round(idle_s))} (the window is {window}): {', and '.join(parts)}"
