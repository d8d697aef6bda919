"""What an analysis answers: one sentence, tables, numbers for machines, and figures that are drawn only on demand.

Whoever shows it (terminal, report) decides how; nothing here prints or writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fluxctl.plots.figure import Spec
from fluxctl.types import JSON

Cell: TypeAlias = "str | int | float | bool | None"
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table.

    Attributes:
        title: What it is, with its unit.
        pattern: How a number is written: a format such as ``,.0f``; ``s`` = seconds in a handy unit, ``B`` = bytes;
            empty = a column of words.
    """

    title: str
    pattern: str = ""

    def text(self, cell: Cell) -> str:
        """A cell for people; a dash where there is nothing."""
        if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
            return NOTHING
        if isinstance(cell, str):
            return cell
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if self.pattern == "s":
            return handy_seconds(cell)
        return handy_bytes(cell) if self.pattern == "B" else format(cell, self.pattern)


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        title: What it shows.
        measures: Its columns.
        rows: Cells of each row, in the order of the columns.
        num_keys: How many of the first columns name a row.
    """

    title: str
    measures: tuple[Measure, ...]
    rows: tuple[tuple[Cell, ...], ...]
    num_keys: int = 1

    def column_texts(self, index: int) -> list[str]:
        """The cells of a column for people."""
        return [self.measures[index].text(row[index]) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn figure.

    Attributes:
        traces: Plotly traces.
        layout: The whole plotly layout.
    """

    traces: Sequence[Spec]
    layout: Mapping[str, JSON]


@dataclass(frozen=True)
class Chart:
    """A figure that can be drawn, and the numbers that it shows.

    Attributes:
        name: File name without its ending.
        title: What it shows.
        draw: Draws it.
        fields: Columns of the numbers.
        points: The plotted numbers, one row per point.
    """

    name: str
    title: str
    draw: Callable[[], Drawing]
    fields: tuple[str, ...]
    points: Sequence[tuple[Cell, ...]]


@dataclass(frozen=True)
class Analysis:
    """The answer to one question.

    Attributes:
        name: The analysis.
        subject: What was looked at: a run's id, or several.
        conclusion: The answer in one plain sentence.
        grids: Tables, the most important first.
        data: Everything for machines.
        charts: Figures.
        is_ok: False if the answer is no.
        notes: What the numbers cannot say, and what was left out.
    """

    name: str
    subject: str
    conclusion: str
    grids: tuple[Grid, ...] = ()
    data: Mapping[str, JSON] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    is_ok: bool = True
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """The answer as JSON."""
        return {
            "analysis": self.name,
            "subject": self.subject,
            "conclusion": self.conclusion,
            "is_ok": self.is_ok,
            "notes": list(self.notes),
            **self.data,
        }


def finite(value: float | None) -> float | None:
    """A number for JSON, which has no word for nan and infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def percent(share: float, digits: int = 0) -> str:
    """A share for people; a share that is not quite all or nothing is never rounded to it."""
    text = f"{share:.{digits}%}"
    if share < 1 and text == f"{1:.{digits}%}":
        return f"over {1 - 10 ** (-2 - digits):.{digits}%}"
    return f"under {10 ** (-2 - digits):.{digits}%}" if share > 0 and text == f"{0:.{digits}%}" else text


def handy_seconds(seconds: float) -> str:
    """``9.5 h``, ``12.3 min``, ``45.0 s``, ``3.2 ms``, ``17 us``."""
    size = abs(seconds)
    if size >= 7200:
        return f"{seconds / 3600:.1f} h"
    if size >= 120:
        return f"{seconds / 60:.1f} min"
    if size >= 1 or size == 0:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if size >= 1e-3 else f"{seconds * 1e6:.0f} us"


def handy_bytes(num_bytes: float) -> str:
    """``1.2 GB``, ``34.5 MB``, ``6.7 kB``, ``89 B``; powers of ten."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(num_bytes) >= size:
            return f"{num_bytes / size:,.1f} {unit}"
    return f"{num_bytes:.0f} B"


def plural(count: int, singular: str, several: str | None = None) -> str:
    """``1 bin``, ``2 bins``."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"
