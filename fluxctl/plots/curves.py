"""Distribution curves: the share of clients, sessions and the like at or below each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fluxctl.plots.figure import Cell, Figure, Sheet, Spec, axis, ecdf, numbers, short_number
from fluxctl.plots.group import Group, seeds_note
from fluxctl.plots.style import legend_name
from fluxctl.telemetry.columns import Floats

_MAX_POINTS = 2000  # of a drawn curve: more than a screen has columns


def draw_ecdf(
    groups: Sequence[Group],
    values: Sequence[Floats],
    *,
    id: str,
    page: str,
    title: str,
    reading: str,
    x_title: str,
    y_title: str,
    column: str,
    is_share: bool = False,
    describe: Callable[[float], str] = short_number,
    scale: float = 1.0,
    is_log: bool = False,
) -> Figure:
    """Empirical distribution functions, one a group; the members of several seeds are taken together.

    Args:
        groups: What is compared.
        values: Numbers of each group, any shape ``(n,)``; those that are not finite are left out.
        id: Name of the figure.
        page: Its experiment.
        title: Its title.
        reading: How to read it.
        x_title: What the numbers are, with their unit.
        y_title: Of what the share is.
        column: Name of the numbers in the table, in their own unit.
        is_share: Whether the numbers are shares, shown as percentages.
        describe: A number in words, for the legend.
        scale: How many of the table's units are one of the axis.
        is_log: Whether the axis is logarithmic.
    """
    sheet = Sheet(("label", column, "cumulative_frac"))
    for group, found in zip(groups, values, strict=True):
        known = found[np.isfinite(found)]
        if not len(known):
            sheet.note(f"{group.label} has nothing to show here.")
            continue
        x, frac = ecdf(known)
        sheet.rows.extend(_rows(group.label, x, frac))
        median = float(np.median(known))
        shown = f"median {100 * median:.0f} %" if is_share else f"median {describe(median)}"
        sheet.traces.append(_steps(group, x / scale, frac, shown))
    ticks: Spec = {"tickformat": ".0%"} if is_share else {"type": "log"} if is_log else {}
    layout: Spec = {
        "xaxis": axis(x_title, rangemode="tozero", **ticks),
        "yaxis": axis(y_title, range=[0, 1.03], tickformat=".0%"),
    }
    return Figure(
        id=id,
        page=page,
        title=title,
        reading=reading,
        traces=sheet.traces,
        layout=layout,
        header=sheet.header,
        rows=sheet.rows,
        notes=(*sheet.notes, *seeds_note(groups, "Each line holds all values")),
    )


def _rows(label: str, x: Floats, frac: Floats) -> list[tuple[Cell, ...]]:
    return [(label, float(value), float(share)) for value, share in zip(x, frac, strict=True)]


def _steps(group: Group, x: Floats, frac: Floats, suffix: str) -> Spec:
    """The curve from 0 at the smallest value on; thinned where it has more steps than a screen has columns."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_POINTS)).astype(np.int64))
    xs, ys = np.concatenate([x[:1], x[keep]]), np.concatenate([[0.0], frac[keep]])
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": numbers(xs),
        "y": numbers(ys),
        "name": legend_name(group.look, suffix),
        "line": {**group.look.line(), "shape": "hv"},
        "marker": {"symbol": group.look.marker, "size": 7, "color": group.look.colour, "maxdisplayed": 8},
    }
