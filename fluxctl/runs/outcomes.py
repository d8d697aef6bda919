"""``converge.json`` and ``stall.json``: how long it took, and what stood still, as numbers for tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluxctl.policies.stopping import EvalPoint, StopState
from fluxctl.policies.stopping.stall import last_progress_s, milestones
from fluxctl.types import JSON

SCHEMA_VERSION = 1


def convergence(state: StopState, points: Sequence[EvalPoint], wall_s: float | None) -> dict[str, JSON]:
    """What ``converge.json`` says of a run that CONVERGED.

    Args:
        state: The stop rules at the end.
        points: All evaluations, in order.
        wall_s: Wall seconds from the first dispatch to the trigger bin's commit; None if nobody measured them.
    """
    limits = state.conditions.limits
    held = [point for point in points if point.bins > 0][-limits.converge_window :]
    trigger = held[-1]
    return {
        "schema_version": SCHEMA_VERSION,
        "target_accuracy": limits.target_accuracy,
        "converge_window": limits.converge_window,
        "trigger_bin": trigger.bins,
        "first_bin": held[0].bins,
        "engine_s": trigger.engine_s,
        "first_engine_s": held[0].engine_s,
        "wall_s": wall_s,
        "accuracy": trigger.accuracy,
        "best_accuracy": None if state.best is None else state.best.accuracy,
        "window_accuracies": [point.accuracy for point in held],
        "running_best": _running_best(points),
    }


def stagnation(state: StopState, engine_s: float) -> dict[str, JSON]:
    """What ``stall.json`` says of a run that STALLED.

    Args:
        state: The stop rules at the end.
        engine_s: Engine time at which the rule fired.
    """
    limits, memory = state.conditions.limits, state.memories["stall"]
    since_s = last_progress_s(limits, memory)
    signals: dict[str, Mapping[str, JSON]] = {
        signal: {
            "best": found.best,
            "milestone": found.value,
            "milestone_engine_s": found.at_s,
            "next_milestone": found.next_value,
            "last": None if state.last is None else _reading(state.last, signal),
        }
        for signal, found in milestones(limits, memory).items()
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "stall_on": limits.stall_on,
        "stall_window_s": limits.stall_window_s,
        "stall_min_delta": limits.stall_min_delta,
        "loss_min_rel_delta": limits.loss_min_rel_delta,
        "bin": 0 if state.last is None else state.last.bins,
        "engine_s": engine_s,
        "last_progress_engine_s": since_s,
        "idle_s": None if since_s is None else engine_s - since_s,
        "signals": signals,
    }


def _reading(point: EvalPoint, signal: str) -> float | None:
    value = point.accuracy if signal == "acc" else point.loss
    return value if value == value else None  # nan is no JSON  # noqa: PLR0124


def _running_best(points: Sequence[EvalPoint]) -> list[JSON]:
    """Each evaluation that was better than all before it."""
    best: list[JSON] = []
    highest = -1.0
    for point in points:
        if point.accuracy > highest:
            highest = point.accuracy
            best.append({"bin": point.bins, "engine_s": point.engine_s, "accuracy": point.accuracy})
    return best
