"""Horizontal bars with names and values written above them, one small axis for each quantity.

Quantities of different size never share an axis: on one that fits the largest, the others are invisible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fluxctl.plots.figure import Cell, Figure, Spec, axis, cell
from fluxctl.plots.group import Group
from fluxctl.plots.seeds import Estimate
from fluxctl.plots.style import INK, legend_name, plain
from fluxctl.types import JSON

_TITLE_PX: Final = 26
_BAR_PX: Final = 42  # a line of text and the bar below it
_TICKS_PX: Final = 30
_AROUND_PX: Final = 96  # margins above and below all facets, with the title of the last axis


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        group: What it stands for.
        value: Its length; the interval is drawn where there is one.
        text: What is written on it.
    """

    group: Group
    value: Estimate
    text: str


@dataclass(frozen=True, slots=True)
class Facet:
    """Bars that share an axis.

    Attributes:
        key: Its name in the name of the figure that it makes alone.
        title: What they measure.
        axis_title: The same with its unit, for the axis of that figure.
        bars: One a group.
    """

    key: str
    title: str
    axis_title: str
    bars: Sequence[Bar]


def draw_facets(
    facets: Sequence[Facet],
    *,
    id: str,
    page: str,
    title: str,
    reading: str,
    x_title: str,
    header: tuple[str, ...],
    rows: Sequence[Sequence[Cell | float]],
    notes: Sequence[str] = (),
) -> Figure:
    """Bars, one facet below the other; and each facet alone, as a panel."""
    traces, layout, height = _stack(facets, x_title, with_headings=True)
    panels = []
    for facet in facets:
        own, its_layout, its_height = _stack([facet], facet.axis_title, with_headings=False)
        panel = Figure(f"{id}_{facet.key}", page, facet.title, reading, own, its_layout, (), (), height=its_height)
        panels += [panel] if _has_values([facet]) else []
    return Figure(
        id=id,
        page=page,
        title=title,
        reading=reading,
        traces=traces if _has_values(facets) else [],
        layout=layout,
        header=header,
        rows=[tuple(cell(c) if isinstance(c, float) else c for c in row) for row in rows],
        notes=tuple(notes),
        height=height,
        panels=tuple(panels),
    )


def _has_values(facets: Sequence[Facet]) -> bool:
    return any(math.isfinite(bar.value.mean) for facet in facets for bar in facet.bars)


def _stack(facets: Sequence[Facet], x_title: str, *, with_headings: bool) -> tuple[list[Spec], Spec, int]:
    """Traces, layout and height of facets below each other, the last one with the title of the axis."""
    traces: list[Spec] = []
    layout: Spec = {"showlegend": False, "margin": {"l": 12}}
    annotations: list[JSON] = []
    num_bars = max((len(facet.bars) for facet in facets), default=0)
    heading = _TITLE_PX if with_headings else 0
    size = heading + num_bars * _BAR_PX + _TICKS_PX  # of a facet, CSS pixels
    total = max(1, size * len(facets) - _TICKS_PX)  # the last one's ticks are in the margin
    for index, facet in enumerate(facets):
        suffix = "" if index == 0 else str(index + 1)
        top = 1 - (index * size + heading) / total
        bottom = max(0.0, top - num_bars * _BAR_PX / total)
        is_last = index == len(facets) - 1
        layout[f"xaxis{suffix}"] = _value_axis(facet, x_title if is_last else "", f"y{suffix}")
        layout[f"yaxis{suffix}"] = axis(
            "",
            anchor=f"x{suffix}",
            domain=[bottom, top],
            range=[num_bars - 0.5, -0.5],
            ticks="",
            showticklabels=False,
            showgrid=False,
        )
        annotations += [_heading(facet.title, top)] if with_headings else []
        annotations.extend(_written(bar, suffix) for bar in facet.bars)
        traces.extend(_bar(bar, suffix) for bar in facet.bars)
    layout["annotations"] = annotations
    return traces, layout, total + _AROUND_PX


def _value_axis(facet: Facet, title: str, anchor: str) -> Spec:
    """An axis from 0, or from the lowest mean, to the end of the longest interval."""
    low = min((bar.value.mean for bar in facet.bars if bar.value.mean < 0), default=0.0)
    high = max((_reach(bar.value) for bar in facet.bars), default=0.0)
    span = (high - low) or 1.0
    room = [low - (0.05 * span if low < 0 else 0.0), high + 0.05 * span]
    return axis(title, anchor=anchor, range=room, nticks=6, zeroline=True, zerolinecolor=INK)


def _heading(title: str, top: float) -> Spec:
    place: Spec = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    return {"text": f"<b>{plain(title, 80)}</b>", "showarrow": False, "font": {"size": 13, "color": INK}, **place}


def _reach(value: Estimate) -> float:
    """The end of a bar or of its interval, 0 at least."""
    if not math.isfinite(value.mean):
        return 0.0
    return max(0.0, value.mean + (value.half_width if math.isfinite(value.half_width) else 0.0))


def _written(bar: Bar, suffix: str) -> Spec:
    """Name and value, above the bar: beside it, a narrow screen has no room."""
    return {
        "text": legend_name(bar.group.look, bar.text),
        "xref": "paper",
        "yref": f"y{suffix}",
        "x": 0,
        "y": legend_name(bar.group.look),
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 3,
        "xshift": 3,
        "showarrow": False,
        "font": {"size": 12, "color": INK},
    }


def _bar(bar: Bar, suffix: str) -> Spec:
    look, value = bar.group.look, bar.value
    half = cell(value.half_width)
    return {
        "type": "bar",
        "orientation": "h",
        "x": [cell(value.mean)],
        "y": [legend_name(look)],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "width": 0.36,
        "offset": 0.0,
        "name": legend_name(look),
        # light, so that the interval can be seen on it
        "marker": {"color": look.faint(0.55), "line": {"color": look.colour, "width": 2}},
        "hovertext": [plain(bar.text, 60)],
        "hoverinfo": "text+name",
        "error_x": {
            "type": "data",
            "array": [half or 0.0],
            "visible": half is not None,
            "color": INK,
            "thickness": 1.2,
        },
    }
