"""A picture of a pair as inline SVG: accuracy, order of commits and clock of both runs, one above the other.

The left run is a thick light line or a ring, the right one a thin dark line or a dot upon it: where they agree the dark
one lies within the light one, in colour, in grey and for colour-blind readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from fluxctl.parity.sketch import Line, Sketch

_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 44, 40
_LIGHT: Final = "#7db4e0"
_DARK: Final = "#9a3500"


def picture(sketch: Sketch) -> str:
    """Draw both runs."""
    order = "Order of commits: which client each update came from"
    if sketch.first_difference is not None:
        order += f" (first difference at update {sketch.first_difference + 1:,})"
    panels = [
        _panel("Test accuracy", sketch.labels, sketch.accuracy, "engine time, s", _lines),
        _panel(order, sketch.labels, sketch.order, "update", _dots),
        _panel(
            "Clock: measured against engine time, s", sketch.labels, sketch.clock, "engine time of a commit, s", _lines
        ),
    ]
    return "\n".join(panels)


def _panel(
    title: str,
    labels: tuple[str, str],
    lines: tuple[Line, Line],
    x_title: str,
    draw: Callable[[Line, bool, Callable[[float], float], Callable[[float], float]], str],
) -> str:
    xs, ys = ([value for line in lines for value in line[axis]] for axis in (0, 1))
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="{_LEFT}" y="15" class="title">{escape(title)}</text>')
    if not xs:
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT // 2}">neither run has such events</text></svg>')
        return "".join(parts)
    x_of, x_ticks = _scale(xs, _LEFT, _WIDTH - _RIGHT)
    y_of, y_ticks = _scale(ys, _HEIGHT - _BOTTOM, _TOP)
    parts += [_axis(x_ticks, y_ticks, x_of, y_of), _legend(labels)]
    parts += [draw(line, is_left, x_of, y_of) for line, is_left in zip(lines, (True, False), strict=True)]
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{x_title}</text>')
    return "".join([*parts, "</svg>"])


def _scale(values: Sequence[float], start: float, end: float) -> tuple[Callable[[float], float], list[float]]:
    """A linear scale that begins and ends at round numbers, and its ticks."""
    low, high = min(values), max(values)
    spread = high - low or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(spread / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if spread / (step * factor) <= 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    ticks = [number * step for number in range(first, last + 1)]
    return lambda value: start + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (end - start), ticks


def _axis(
    x_ticks: Sequence[float], y_ticks: Sequence[float], x_of: Callable[[float], float], y_of: Callable[[float], float]
) -> str:
    parts = []
    for tick in y_ticks:
        y = y_of(tick)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
    for tick in x_ticks:
        x = x_of(tick)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{tick:.6g}</text>')
    return "".join(parts)


def _legend(labels: tuple[str, str]) -> str:
    y = 33
    return (
        f'<line x1="{_LEFT}" x2="{_LEFT + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{_LIGHT}" stroke-width="6"/>'
        f'<text x="{_LEFT + 30}" y="{y}">{escape(labels[0])}</text>'
        f'<line x1="{_LEFT + 110}" x2="{_LEFT + 134}" y1="{y - 4}" y2="{y - 4}" stroke="{_DARK}" stroke-width="1.5"/>'
        f'<text x="{_LEFT + 140}" y="{y}">{escape(labels[1])}</text>'
    )


def _lines(line: Line, is_left: bool, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> str:
    points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in zip(*line, strict=True))
    color, width = (_LIGHT, 6) if is_left else (_DARK, 1.5)
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"/>'


def _dots(line: Line, is_left: bool, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> str:
    style = f'fill="none" stroke="{_LIGHT}" stroke-width="2.5" r="4"' if is_left else f'fill="{_DARK}" r="1.8"'
    return "".join(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" {style}/>' for x, y in zip(*line, strict=True))
