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
from fluxctl.plots.embed import CSP, Embedded, library, script
from fluxctl.runs.files import csv_text, write_text

HEIGHT: Final = 420  # of a figure, CSS pixels
_PAGE: Final = Template(
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$csp">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
<style>body{font:15px/1.5 "DejaVu Sans",Verdana,Arial,sans-serif;margin:1rem auto;max-width:70rem;padding:0 1rem}
body{color:#1a1a1a;background:#fff}h1{font-size:1.2rem}h1,p{overflow-wrap:anywhere}
.small{color:#555;font-size:.85rem}</style></head>
<body><h1>$title</h1><p>$conclusion</p>$figure<p class="small">$subject</p>
<script>$library</script>
<script>$draw</script>
</body></html>
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
    figure = embedded(chart)
    written = Written(folder / f"{chart.name}.html", folder / f"{chart.name}.csv")
    page = _PAGE.substitute(
        title=escape(chart.title),
        conclusion=escape(analysis.conclusion),
        subject=escape(analysis.subject),
        csp=CSP,
        figure=figure.place,
        library=library(),
        draw=script([figure]),
    )
    write_text(written.html, page)
    write_text(written.csv, csv_text(chart.fields, [[_known(cell) for cell in row] for row in chart.points]))
    return written


def embedded(chart: Chart, prefix: str = "") -> Embedded:
    """A figure as a part of a page.

    Args:
        chart: What to draw.
        prefix: Before its name in its id, where a page shows several of one name.
    """
    drawn = chart.draw()
    return Embedded(f"{prefix}{chart.name}", drawn.traces, drawn.layout, HEIGHT)


def _known(cell: Cell) -> Cell:
    """A cell of the table; None for a number that is not known."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell
