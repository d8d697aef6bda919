"""The comparison of runs as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from fluxctl.commands._render import Column, duration, megabytes, number, print_grid
from fluxctl.types import JSON


def print_comparison(console: Console, runs: Sequence[dict[str, JSON]]) -> None:
    """One line a run, in the order of the figures."""
    has_seeds = len({run["seed"] for run in runs}) > 1

    def numbers(title: str, field: str, pattern: str) -> Column:
        return Column(title, [number(run[field], pattern) for run in runs], True)

    def times(title: str, field: str) -> Column:
        return Column(title, [_duration(run[field]) for run in runs], True)

    columns = [
        Column("label", [str(run["label"]) for run in runs]),
        *([Column("seed", [str(run["seed"]) for run in runs], True)] if has_seeds else []),
        Column("verdict", [str(run["verdict"] or "-") for run in runs]),
        numbers("bins", "bins", ",.0f"),
        numbers("peak acc", "peak_accuracy", ".3f"),
        numbers("final acc", "final_accuracy", ".3f"),
        numbers("final loss", "final_loss", ".3f"),
        times("to peak", "peak_engine_s"),
        times("to target", "target_engine_s"),
        times("engine time", "engine_s"),
        times("wall time", "wall_s"),
        numbers("passes", "forward_passes", ",.0f"),
        Column("MB down", [megabytes(run["bytes_down"]) for run in runs], True),
        Column("MB up", [megabytes(run["bytes_up"]) for run in runs], True),
        numbers("drop/compute h", "loss_drop_per_compute_h", ".3g"),
        numbers("drop/M passes", "loss_drop_per_million_passes", ".3g"),
        numbers("drop/GB", "loss_drop_per_gigabyte", ".3g"),
    ]
    print_grid(console, columns, num_keys=2 if has_seeds else 1)


def _duration(value: JSON) -> str:
    return duration(float(value)) if isinstance(value, int | float) else "-"
