"""A run in a line: what a comparison of systems lists, from the same numbers that the figures show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fluxctl.plots.e3 import productivity
from fluxctl.plots.figure import cell
from fluxctl.plots.group import Group, Shown
from fluxctl.telemetry.columns import Floats
from fluxctl.types import JSON


def summaries(groups: Sequence[Group]) -> list[dict[str, JSON]]:
    """One object for each run, in the order of the figures; None where a run does not say.

    Everything is about the whole run but ``loss_drop_per_*``, which end where its curves end.
    """
    return [_summary(group, shown) for group in groups for shown in group.runs]


def _summary(group: Group, shown: Shown) -> dict[str, JSON]:
    series = shown.series
    facts, evaluations = series.facts, series.evaluations
    peak = evaluations.peak
    target = facts.target_accuracy
    reached = None if target is None else evaluations.first_at(target)
    used = productivity(shown)
    split = series.aggregator
    return {
        "label": group.label,
        "run": facts.id,
        "run_set": facts.run_set,
        "baseline": facts.baseline,
        "variant": facts.variant,
        "mode": facts.mode,
        "seed": facts.seed,
        "verdict": facts.verdict,
        "condition": facts.condition,
        "bins": series.num_commits,
        "cycles": len(series.cycles),
        "updates": len(series.updates),
        "evaluations": len(evaluations),
        "evaluations_shown": shown.num_evals,
        "peak_accuracy": None if peak is None else float(evaluations.accuracy[peak]),
        "peak_engine_s": None if peak is None else float(evaluations.engine_s[peak]),
        "final_accuracy": _last(evaluations.accuracy),
        "first_loss": None if not len(evaluations) else cell(float(evaluations.loss[0])),
        "final_loss": _last(evaluations.loss),
        "target_accuracy": target,
        "target_engine_s": None if reached is None else float(evaluations.engine_s[reached]),
        "engine_s": series.engine_s,
        "wall_s": cell(series.wall_s),
        "forward_passes": series.passes,
        "bytes_down": series.total_bytes("down"),
        "bytes_up": series.total_bytes("up"),
        "loss_drop": cell(used.loss_drop),
        "loss_drop_per_compute_h": cell(used.per(used.compute_h)),
        "loss_drop_per_million_passes": cell(used.per(used.passes)),
        "loss_drop_per_gigabyte": cell(used.per(used.gigabytes)),
        "mean_busy_frac": float(series.busy_frac.mean()) if len(series.busy_frac) else None,
        "aggregate_s": cell(split.aggregate_s),
        "eval_s": cell(split.eval_s),
        "wait_s": cell(split.wait_s),
        "rest_s": cell(split.rest_s),
        "damaged_lines": len(series.problems),
    }


def _last(values: Floats) -> float | None:
    return cell(float(values[-1])) if len(values) and math.isfinite(values[-1]) else None
