"""Records to tables; the only place that builds them.

A table that is wider than the screen is split into several that share their first columns: nothing is cut or dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table

from fluxctl.commands._talk import plain_text
from fluxctl.types import JSON

_GAP: Final = 2  # blanks between columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its cells and how they are set."""

    title: str
    cells: Sequence[str]
    is_number: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest cell."""
        return max(map(cell_len, (self.title, *self.cells)))


def print_grid(console: Console, columns: Sequence[Column], num_keys: int = 1) -> None:
    """Print columns, split into as many tables as the screen needs.

    Args:
        console: Where to print.
        columns: All of the same length; columns without any content are left out.
        num_keys: How many of the first are repeated in each part.
    """
    keys = list(columns[:num_keys])
    rest = [column for column in columns[num_keys:] if any(cell not in ("", "-") for cell in column.cells)]
    for part in _parts(keys, rest, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
        for column in part:
            # a single cell wider than the screen is folded, never cut
            justify: JustifyMethod = "right" if column.is_number else "left"
            table.add_column(plain_text(column.title), justify=justify, overflow="fold")
        for row in zip(*(column.cells for column in part), strict=True):
            table.add_row(*(plain_text(cell) for cell in row))
        console.print(table)
        console.print()


def _parts(keys: list[Column], rest: Sequence[Column], width: int) -> list[list[Column]]:
    room = width - sum(column.width + _GAP for column in keys)
    parts: list[list[Column]] = []
    left = 0
    for column in rest:
        needed = column.width + _GAP
        if not parts or needed > left:
            parts.append(list(keys))
            left = room
        parts[-1].append(column)
        left -= needed
    return parts or [keys]


def duration(seconds: float | None) -> str:
    """``9.5 h``, ``12.3 min``, ``45.0 s``."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"


def number(value: Any, pattern: str = ",.0f") -> str:  # noqa: ANN401 - a field of a JSON file
    """A number by a format, or a dash."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "-"
    return format(value, pattern)


def kilobytes(value: Any) -> str:  # noqa: ANN401
    """Bytes in thousands."""
    return number(value / 1e3, ",.0f") if isinstance(value, int | float) else "-"


def megabytes(value: Any) -> str:  # noqa: ANN401
    """Bytes in millions."""
    return number(value / 1e6, ",.1f") if isinstance(value, int | float) else "-"


def rate(value: Any) -> str:  # noqa: ANN401
    """A sim rate: engine seconds per wall second."""
    return number(value, ",.0f" if isinstance(value, int | float) and value >= 20 else ".2f")


def print_results(console: Console, rows: Sequence[Mapping[str, JSON]]) -> None:
    """The final table of a launch, one line per run."""
    has_seeds = len({row["seed"] for row in rows}) > 1
    columns = [
        Column("baseline", [f"{row['baseline']} {row.get('variant') or ''}".rstrip() for row in rows]),
        Column("mode", [str(row["mode"]) for row in rows]),
        *([Column("seed", [str(row["seed"]) for row in rows], True)] if has_seeds else []),
        Column("verdict", [str(row["verdict"]) for row in rows]),
        Column("bins", [number(row["bins"]) for row in rows], True),
        Column("best acc", [number(row["best_accuracy"], ".3f") for row in rows], True),
        Column("final acc", [number(row["final_accuracy"], ".3f") for row in rows], True),
        Column("engine time", [_duration_of(row["engine_s"]) for row in rows], True),
        Column("wall time", [_duration_of(row["wall_s"]) for row in rows], True),
        Column("sim rate", [rate(row["sim_rate"]) for row in rows], True),
        Column("passes", [number(row["forward_passes"]) for row in rows], True),
        Column("MB down", [megabytes(row["bytes_down"]) for row in rows], True),
        Column("MB up", [megabytes(row["bytes_up"]) for row in rows], True),
        Column("step kB (bp)", [_step_memory(row) for row in rows], True),
    ]
    print_grid(console, columns, num_keys=3 if has_seeds else 2)


def _step_memory(row: Mapping[str, JSON]) -> str:
    """What a client's step needs by a forward gradient, and by back-propagation."""
    forward, backprop = (kilobytes(row.get(f"{method}_memory_bytes")) for method in ("forward", "backprop"))
    return f"{forward} ({backprop})" if forward != "-" else "-"


def _duration_of(value: JSON) -> str:
    return duration(float(value)) if isinstance(value, int | float) else "-"
