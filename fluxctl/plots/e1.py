"""E1: how accuracy and loss develop, along engine time, wall time, forward passes or bytes.

The thin line is what was measured, the thick one its moving average, which is for the eye only: stars, legends and
tables hold measured numbers. Several seeds become a mean with its 95 % interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np

from fluxctl.plots.figure import (
    BYTE_UNITS,
    COUNT_UNITS,
    SECOND_UNITS,
    Cell,
    Figure,
    Sheet,
    Spec,
    axis,
    cell,
    merged,
    numbers,
    unit_of,
)
from fluxctl.plots.group import Group, Options, Shown, cut_notes, seeds_note
from fluxctl.plots.seeds import Band, band, estimate
from fluxctl.plots.style import INK, MUTED, STAR, legend_name
from fluxctl.telemetry.columns import Floats
from fluxctl.telemetry.series import Axis
from fluxctl.types import JSON

Quantity = Literal["accuracy", "loss"]
_HEADER: Final = (
    "label",
    "line",
    "run",
    "seed",
    "bins",
    "engine_s",
    "wall_s",
    "passes",
    "bytes",
)
_TITLES: Final = {
    Axis.ENGINE: "engine time",
    Axis.WALL: "wall time",
    Axis.PASSES: "forward passes",
    Axis.BYTES: "bytes sent, both directions",
}
_TARGET: Final[Mapping[str, JSON]] = {"color": MUTED, "width": 1.2, "dash": "dash"}
_ROUND: Final[Mapping[str, JSON]] = {**_TARGET, "dash": "dot"}
_UNITS: Final = {
    Axis.ENGINE: SECOND_UNITS,
    Axis.WALL: SECOND_UNITS,
    Axis.PASSES: COUNT_UNITS,
    Axis.BYTES: BYTE_UNITS,
}


def draw(groups: Sequence[Group], options: Options) -> list[Figure]:
    """Accuracy and loss."""
    return [_draw("accuracy", groups, options), _draw("loss", groups, options)]


def smoothed(values: Floats, window: int) -> Floats:
    """A centred moving average that shrinks towards the ends, so that the first and last value stay.

    Args:
        values: Shape ``(n,)``; nan are left out of the averages.
        window: How many values at most.
    """
    half = np.minimum(max(0, window // 2), np.minimum(np.arange(len(values)), np.arange(len(values))[::-1]))
    known = np.isfinite(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(known)])
    at = np.arange(len(values))
    num = count[at + half + 1] - count[at - half]
    mean = (total[at + half + 1] - total[at - half]) / np.maximum(num, 1)
    return np.where((num > 0) & known, mean, np.nan)


def _draw(quantity: Quantity, groups: Sequence[Group], options: Options) -> Figure:
    sheet = Sheet((*_HEADER, quantity, "ci_low", "ci_high"))
    scale, unit = _scale(groups, options.axis)
    for group in groups:
        _draw_group(sheet, quantity, group, options, scale)
    bands = seeds_note(groups, "Bands are 95 % t-intervals of the mean")
    for note in [*bands, *cut_notes(groups, options.cut)]:
        sheet.note(note)
    along = _TITLES[options.axis]
    axes = _axes(quantity, f"{along} ({unit})" if unit else along)
    if quantity == "accuracy" and sheet.traces:
        sheet.traces.extend(_target_entries(groups))
    peaks = " A star marks the highest accuracy measured." if quantity == "accuracy" else ""
    return Figure(
        id=f"e1_{quantity}",
        page="e1",
        title=f"Test {quantity} over {along}",
        reading=f"Thin lines are measured, thick ones a moving average for the eye.{peaks}",
        traces=sheet.traces,
        layout=merged(axes, _extras(quantity, groups, options, scale)),
        lack="no evaluation to show",
        header=sheet.header,
        rows=sheet.rows,
        notes=tuple(sheet.notes),
    )


def _scale(groups: Sequence[Group], along: Axis) -> tuple[float, str]:
    """The unit of the x axis, by the longest curve shown."""
    ends = [x for group in groups for shown in group.runs for x in _curve(shown, "loss", along)[0]]
    return unit_of(max((x for x in ends if np.isfinite(x)), default=0.0), _UNITS[along])


def _curve(shown: Shown, quantity: Quantity, along: Axis) -> tuple[Floats, Floats]:
    evaluations = shown.series.evaluations
    y = evaluations.accuracy if quantity == "accuracy" else evaluations.loss
    return evaluations.along(along)[: shown.num_evals], y[: shown.num_evals]


def _draw_group(sheet: Sheet, quantity: Quantity, group: Group, options: Options, scale: float) -> None:
    curves = [_curve(shown, quantity, options.axis) for shown in group.runs]
    for shown, (x, y) in zip(group.runs, curves, strict=True):
        _add_rows(sheet, group, shown, y)
        if np.isfinite(x).any() and np.isfinite(y).any():
            is_alone = group.is_single and options.smooth <= 1
            sheet.traces.append(
                _raw(group, x / scale, y, opacity=0.0 if is_alone else 0.45 if group.is_single else 0.25)
            )
        elif len(y):
            sheet.note(f"{group.label}: {quantity} along this axis is not recorded.")
    if not any(np.isfinite(x).any() and np.isfinite(y).any() for x, y in curves):
        if not any(len(x) for x, _ in curves):
            sheet.note(f"{group.label} has no evaluation.")
        return
    spread = None if group.is_single else band(curves)
    if spread is not None:
        _add_band(sheet, group, spread, options.axis, scale)
    elif not group.is_single:
        sheet.note(f"{group.label}: its seeds have no part in common, so there is no mean.")
    x, y = curves[0] if spread is None else (spread.x, spread.mean)
    sheet.traces.append(_thick(group, x / scale, smoothed(y, options.smooth), _peak_text(group, quantity)))
    if quantity == "accuracy":
        sheet.traces.extend(_stars(group, options.axis, scale))
    if group.is_single:
        sheet.traces.extend(_round_ends(group, quantity, options, scale))


def _raw(group: Group, x: Floats, y: Floats, opacity: float) -> Spec:
    look = group.look
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": legend_name(look),
        "legendgroup": group.label,
        "showlegend": False,
        "line": {"color": look.faint(opacity), "width": 1.2},
        "hoverlabel": {"bgcolor": look.colour},
    }


def _thick(group: Group, x: Floats, y: Floats, suffix: str) -> Spec:
    few = len(x) <= 2
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": numbers(x),
        "y": numbers(y),
        "name": legend_name(group.look, suffix),
        "legendgroup": group.label,
        "line": group.look.line(),
        "marker": {
            "symbol": group.look.marker,
            "size": 9 if few else 7,
            "color": group.look.colour,
            "maxdisplayed": 0 if few else 10,
        },
        "hoverinfo": "skip" if not few else "x+y+name",
    }


def _add_band(sheet: Sheet, group: Group, spread: Band, along: Axis, scale: float) -> None:
    low, high = spread.mean - spread.half_width, spread.mean + spread.half_width
    x = numbers(spread.x / scale)
    sheet.traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": [*x, *reversed(x)],
            "y": [*numbers(high), *reversed(numbers(low))],
            "fill": "toself",
            "fillcolor": group.look.faint(0.16),
            "line": {"width": 0},
            "legendgroup": group.label,
            "showlegend": False,
            "hoverinfo": "skip",
            "name": legend_name(group.look),
        }
    )
    place = [*Axis].index(along)
    for at, mean, down, up in zip(spread.x, spread.mean, low, high, strict=True):
        where: list[Cell] = [None] * len(Axis)
        where[place] = float(at)
        sheet.rows.append((group.label, "mean", None, None, None, *where, float(mean), cell(down), cell(up)))


def _add_rows(sheet: Sheet, group: Group, shown: Shown, y: Floats) -> None:
    facts, evaluations = shown.series.facts, shown.series.evaluations
    for row, value in enumerate(y):
        sheet.rows.append(
            (
                group.label,
                "run",
                facts.id,
                facts.seed,
                int(evaluations.num_commits[row]),
                float(evaluations.engine_s[row]),
                cell(evaluations.wall_s[row]),
                int(evaluations.passes[row]),
                int(evaluations.bytes_down[row] + evaluations.bytes_up[row]),
                cell(value),
                None,
                None,
            )
        )


def _peak_text(group: Group, quantity: Quantity) -> str:
    if quantity == "loss":
        return ""
    peaks = [shown.series.evaluations.accuracy[: shown.num_evals] for shown in group.runs]
    best = estimate([100 * float(np.nanmax(peak)) for peak in peaks if np.isfinite(peak).any()])
    return f"peak {best.text('.1f')} %" if best.num else ""


def _stars(group: Group, along: Axis, scale: float) -> list[Spec]:
    at = []
    for shown in group.runs:
        x, y = _curve(shown, "accuracy", along)
        if np.isfinite(y).any():
            row = int(np.nanargmax(y))
            at.append((float(x[row]) / scale, float(y[row])))
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": numbers(x for x, _ in at),
            "y": numbers(y for _, y in at),
            "name": f"{legend_name(group.look)} peak",
            "legendgroup": group.label,
            "showlegend": False,
            "marker": {
                "symbol": STAR,
                "size": 15 if group.is_single else 11,
                "color": group.look.colour,
                "line": {"color": "#ffffff", "width": 1.2},
            },
            "cliponaxis": False,
        }
    ]


def _round_ends(group: Group, quantity: Quantity, options: Options, scale: float) -> list[Spec]:
    """Ticks across the curve where a round ended."""
    shown = group.runs[0]
    x, y = _curve(shown, quantity, options.axis)
    ends = shown.series.cycles.along(options.axis)[shown.series.cycles.round_ends]
    known = np.isfinite(x) & np.isfinite(y)
    ends = ends[np.isfinite(ends) & (ends >= x[known][0]) & (ends <= x[known][-1])]
    if not len(ends):
        return []
    at = np.interp(ends, x[known], smoothed(y, options.smooth)[known])
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": numbers(ends / scale),
            "y": numbers(at),
            "name": f"{legend_name(group.look)} round ends",
            "legendgroup": group.label,
            "showlegend": False,
            "marker": {  # an open symbol takes its colour from the marker, not from its line
                "symbol": "line-ns-open",
                "size": 16,
                "color": group.look.colour,
                "line": {"width": 2, "color": group.look.colour},
            },
            "hoverinfo": "x+name",
        }
    ]


def _axes(quantity: Quantity, x_title: str) -> Spec:
    y = axis("test accuracy", tickformat=".0%") if quantity == "accuracy" else axis("test loss (nats)")
    return {"xaxis": axis(x_title, rangemode="tozero"), "yaxis": y}


def _extras(quantity: Quantity, groups: Sequence[Group], options: Options, scale: float) -> Spec:
    """Target lines, and the boundaries of rounds where there is only one run."""
    shapes: list[JSON] = []
    notes: list[JSON] = []
    if quantity == "accuracy":
        shapes += [_rule({"xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at}) for at in _targets(groups)]
    if len(groups) == 1 and groups[0].is_single:
        cycles = groups[0].runs[0].series.cycles
        for end, row in zip(cycles.along(options.axis)[cycles.round_ends], cycles.round_ends, strict=True):
            if np.isfinite(end):
                at = float(end) / scale
                shapes.append(_rule({"yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at}, _ROUND))
                text = f"round {int(cycles.round[row]) + 1} ends"
                # accuracy rises and loss falls: each leaves the other corner free
                low = quantity == "accuracy"
                place: Spec = {
                    "yref": "paper",
                    "x": at,
                    "y": 0.02 if low else 0.98,
                    "xanchor": "right",
                    "yanchor": "bottom" if low else "top",
                }
                notes.append(merged(_words(text, place), {"textangle": -90}))
    return {"shapes": shapes, "annotations": notes}


def _targets(groups: Sequence[Group]) -> list[float]:
    facts = [shown.series.facts for group in groups for shown in group.runs]
    return sorted({fact.target_accuracy for fact in facts if fact.target_accuracy is not None})


def _target_entries(groups: Sequence[Group]) -> list[Spec]:
    """Legend entries that name the target lines; beside a line there is no place that data cannot take."""
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [None],
            "y": [None],
            "name": f"target {100 * target:g} %",
            "line": {**_TARGET},
            "hoverinfo": "skip",
        }
        for target in _targets(groups)
    ]


def _rule(place: Spec, line: Mapping[str, JSON] = _TARGET) -> Spec:
    return {"type": "line", "layer": "below", "line": {**line}, **place}


def _words(text: str, place: Spec) -> Spec:
    return {"text": text, "showarrow": False, "font": {"size": 12, "color": INK}, **place}
