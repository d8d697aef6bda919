"""E5: how long clients are engaged, and how evenly they take part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fluxctl.plots.curves import draw_ecdf
from fluxctl.plots.figure import (
    SECOND_UNITS,
    Cell,
    Figure,
    Sheet,
    Spec,
    axis,
    numbers,
    short_seconds,
    unit_of,
)
from fluxctl.plots.group import Group, Options, seeds_note
from fluxctl.plots.style import legend_name
from fluxctl.telemetry.columns import Floats

_FAR: Final = 50.0  # times the median; a longer tail needs a logarithmic axis


def draw(groups: Sequence[Group], options: Options) -> list[Figure]:
    """Dispatch-to-commit times, and updates in cohorts by client."""
    del options
    # times are whole nanoseconds; rounding undoes what the subtraction of floats made of equal spans
    spans = [np.round(np.concatenate([shown.series.sessions.span_s for shown in group.runs]), 9) for group in groups]
    longest = max((float(np.nanmax(span)) for span in spans if np.isfinite(span).any()), default=0.0)
    scale, unit = unit_of(longest, SECOND_UNITS)
    together = np.concatenate(spans) if spans else np.empty(0)
    together = together[np.isfinite(together)]
    # a few sessions that wait for a client to come back would press all others against the axis
    is_log = bool(len(together)) and together.min() > 0 and longest > _FAR * float(np.median(together))
    sessions = draw_ecdf(
        groups,
        spans,
        id="e5_sessions",
        page="e5",
        title="From dispatch to commit",
        reading="Share of updates whose cycle closed within so much engine time of their dispatch.",
        x_title=f"dispatch to commit, engine time ({unit})",
        y_title="share of updates",
        column="span_s",
        describe=short_seconds,
        scale=scale,
        is_log=is_log,
    )
    return [sessions, _participation(groups)]


def _participation(groups: Sequence[Group]) -> Figure:
    sheet = Sheet(("label", "run", "seed", "client", "updates"))
    for group in groups:
        for shown in group.runs:
            facts = shown.series.facts
            rows: list[tuple[Cell, ...]] = [
                (group.label, facts.id, facts.seed, client, int(count))
                for client, count in enumerate(shown.series.participation)
            ]
            sheet.rows.extend(rows)
        sheet.traces.extend(_ranked(group, sheet))
    layout: Spec = {
        "xaxis": axis("clients, from the most to the least active", rangemode="tozero"),
        "yaxis": axis("updates in cohorts", rangemode="tozero"),
    }
    return Figure(
        id="e5_participation",
        page="e5",
        title="How evenly clients take part",
        reading="Updates of each client that became part of a cohort, most active first; a flat line is even."
        " The legend says what the most active tenth contributed.",
        traces=sheet.traces,
        layout=layout,
        lack="no updates recorded",
        header=sheet.header,
        rows=sheet.rows,
        notes=(*sheet.notes, *seeds_note(groups, "Each line is the mean at each rank")),
    )


def _ranked(group: Group, sheet: Sheet) -> list[Spec]:
    """The sorted counts of a group: the mean over its seeds at each rank."""
    counts = [np.sort(shown.series.participation)[::-1] for shown in group.runs]
    size = min(len(count) for count in counts)
    if not size or not any(count.sum() for count in counts):
        sheet.note(f"{group.label} has no update in a cohort.")
        return []
    mean: Floats = np.stack([count[:size] for count in counts]).mean(axis=0)
    keep = np.unique(np.linspace(0, size - 1, min(size, 2000)).astype(np.int64))
    tenth = max(1, size // 10)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": numbers(keep + 1.0),
            "y": numbers(mean[keep]),
            "name": legend_name(group.look, f"top tenth {100 * mean[:tenth].sum() / mean.sum():.0f} %"),
            "line": {**group.look.line(), "shape": "hvh"},
            "marker": {"symbol": group.look.marker, "size": 7, "color": group.look.colour, "maxdisplayed": 10},
        }
    ]
