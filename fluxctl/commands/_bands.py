"""Runs that differ only in their seed, as a mean and a 95 % confidence interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from fluxctl.commands._render import Column, duration, number, print_grid, rate
from fluxctl.commands._talk import plain_text
from fluxctl.plots.seeds import estimate
from fluxctl.types import JSON

FIELDS: Final = (
    "bins",
    "best_accuracy",
    "final_accuracy",
    "engine_s",
    "wall_s",
    "sim_rate",
    "forward_passes",
    "bytes_down",
    "bytes_up",
)


@dataclass(frozen=True, slots=True)
class Band:
    """A quantity over seeds.

    Args:
        mean: Mean of the runs that have it.
        half_width: Half the 95 % confidence interval of the mean (Student's t); None for fewer than two runs.
        num: Runs that have it.
    """

    mean: float
    half_width: float | None
    num: int


def band(values: Sequence[float]) -> Band | None:
    """Mean and confidence interval; None without values."""
    found = estimate(values)
    half = None if math.isnan(found.half_width) else found.half_width
    return Band(found.mean, half, found.num) if found.num else None


@dataclass(frozen=True)
class Group:
    """All seeds of one baseline in one mode."""

    baseline: str
    mode: str
    num_runs: int
    verdicts: Mapping[str, int]
    bands: Mapping[str, Band | None]

    def to_json(self) -> dict[str, JSON]:
        """The group as JSON."""
        return {
            "baseline": self.baseline,
            "mode": self.mode,
            "num_runs": self.num_runs,
            "verdicts": dict(self.verdicts),
            **{
                name: None if item is None else {"mean": item.mean, "half_width": item.half_width, "num": item.num}
                for name, item in self.bands.items()
            },
        }


def group_by_seed(rows: Sequence[Mapping[str, JSON]]) -> list[Group]:
    """One group for each baseline and mode, in order of appearance."""
    members: dict[tuple[str, str], list[Mapping[str, JSON]]] = {}
    for row in rows:
        label = f"{row['baseline']} {row.get('variant') or ''}".rstrip()
        members.setdefault((label, str(row["mode"])), []).append(row)
    return [
        Group(
            baseline,
            mode,
            len(runs),
            Counter(str(run["verdict"]) for run in runs),
            {name: band(_finite(run[name] for run in runs)) for name in FIELDS},
        )
        for (baseline, mode), runs in members.items()
    ]


def print_bands(console: Console, groups: Sequence[Group]) -> None:
    """The means below the table of runs."""
    console.print(plain_text("mean over seeds, with half the 95 % confidence interval"))
    columns = [
        Column("baseline", [group.baseline for group in groups]),
        Column("mode", [group.mode for group in groups]),
        Column("verdicts", [", ".join(f"{num} {name}" for name, num in group.verdicts.items()) for group in groups]),
        _column("bins", "bins", groups, ",.1f"),
        _column("best acc", "best_accuracy", groups, ".3f"),
        _column("final acc", "final_accuracy", groups, ".3f"),
        Column("engine time", [_time(group.bands["engine_s"]) for group in groups], True),
        Column("wall time", [_time(group.bands["wall_s"]) for group in groups], True),
        Column("sim rate", [rate(item.mean) if (item := group.bands["sim_rate"]) else "-" for group in groups], True),
        _column("passes", "forward_passes", groups, ",.0f"),
        _column("MB down", "bytes_down", groups, ",.1f", 1e-6),
        _column("MB up", "bytes_up", groups, ",.1f", 1e-6),
    ]
    print_grid(console, columns, num_keys=2)


def _column(title: str, name: str, groups: Sequence[Group], pattern: str, scale: float = 1.0) -> Column:
    cells = []
    for group in groups:
        item = group.bands[name]
        if item is None:
            cells.append("-")
            continue
        spread = "" if item.half_width is None else f" ± {number(item.half_width * scale, pattern)}"
        cells.append(number(item.mean * scale, pattern) + spread)
    return Column(title, cells, True)


def _time(item: Band | None) -> str:
    if item is None:
        return "-"
    return duration(item.mean) if item.half_width is None else f"{duration(item.mean)} ± {duration(item.half_width)}"


def _finite(values: Iterable[JSON]) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float) and math.isfinite(value)]
