"""One figure as a page of its own: HTML that needs no network, with the numbers that it shows beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from fluxctl.analyses.result import Analysis, Cell, Chart
from fluxctl.errors import ConfigError, os_reason
from fluxctl.runs.files import csv_text, write_text

_PAGE: Final = Template(
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>body{font:15px/1.5 "DejaVu Sans",Arial,sans-serif;margin:1rem auto;max-width:70rem;padding:0 1rem;color:#1a1a1a}
h1{font-size:1.2rem}.small{color:#555;font-size:.85rem;overflow-wrap:anywhere}</style></head>
<body><h1>$title</h1><p>$conclusion</p>$figure<p class="small">$subject</p></body></html>
"""
)


@dataclass(frozen=True, slots=True)
class Written:
    """Files of one figure."""

    html: Path
    csv: Path


def write_charts(analysis: Analysis, folder: Path) -> tuple[Written, ...]:
    """Draw the figures of an analysis and write them to a folder, which is made if need be.

    Raises:
        ConfigError: If they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_write(chart, analysis, folder) for chart in analysis.charts)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(
            f"cannot write the figures: {reason}", where=str(folder), hint="choose a folder with --out"
        ) from None


def _write(chart: Chart, analysis: Analysis, folder: Path) -> Written:
    written = Written(folder / f"{chart.name}.html", folder / f"{chart.name}.csv")
    page = _PAGE.substitute(
        title=escape(chart.title),
        conclusion=escape(analysis.conclusion),
        subject=escape(analysis.subject),
        figure=figure_html(chart, with_library=True),
    )
    write_text(written.html, page)
    write_text(written.csv, csv_text(chart.fields, [[_known(cell) for cell in row] for row in chart.points]))
    return written


def figure_html(chart: Chart, *, with_library: bool) -> str:
    """A figure as a part of a page.

    Args:
        chart: What to draw.
        with_library: Whether to carry the drawing library, which a page needs once (4.5 MB).
    """
    from plotly.io import to_html

    config = {"displaylogo": False, "responsive": True}
    return str(to_html(chart.draw(), full_html=False, include_plotlyjs=with_library, config=config))


def _known(cell: Cell) -> Cell:
    """A cell of the table; None for a number that is not known."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell
