"""The figures E1-E5 of a report."""

from __future__ import annotations

from collections.abc import Sequence

from fluxctl.analyses.result import Chart
from fluxctl.telemetry.series import RunSeries


def progress_charts(runs: Sequence[RunSeries]) -> list[Chart]:
    """Figures of the progress of runs."""
    return [_curve(runs, "accuracy"), _curve(runs, "loss")] if runs else []


def _curve(runs: Sequence[RunSeries], what: str) -> Chart:
    def draw() -> object:
        from fluxctl.analyses.figures import lines

        curves = {
            name: (run.evaluations.engine_s.tolist(), getattr(run.evaluations, what).tolist())
            for name, run in zip(names, runs, strict=True)
        }
        return lines(curves, x="engine time (s)", y=f"test {what}")

    names = [f"{run.facts.label} {run.facts.mode} seed {run.facts.seed}" for run in runs]
    points = [
        (name, float(at), float(value))
        for name, run in zip(names, runs, strict=True)
        for at, value in zip(run.evaluations.engine_s, getattr(run.evaluations, what), strict=True)
    ]
    return Chart(f"e1_{what}", f"Test {what} over engine time", draw, ("run", "engine_s", what), points)
