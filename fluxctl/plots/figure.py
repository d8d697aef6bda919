"""What a figure is: a plotly specification, the numbers that it shows, and a sentence on how to read it.

Specifications are plain JSON, not plotly objects: they are what the page, the JSON file and the renderer all take, and
building them costs nothing. A test gives every one of them to plotly's own validator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fluxctl.plots.style import FONT, GRID, INK
from fluxctl.telemetry.columns import Floats, Ints
from fluxctl.types import JSON

Spec: TypeAlias = "dict[str, JSON]"
Cell: TypeAlias = "str | int | float | None"
WIDTH, HEIGHT = 760, 480  # of an image, CSS pixels
LEGEND_PX: Final = 22  # of a line of the legend
_MIXED: Final[Spec] = {
    "text": "mixed conditions",
    "xref": "paper",
    "yref": "paper",
    "x": 0,
    "y": 1,
    "xanchor": "left",
    "yanchor": "bottom",
    "showarrow": False,
    "font": {"size": 11, "color": INK},
    "bordercolor": INK,
    "borderwidth": 1,
}


@dataclass(frozen=True)
class Figure:
    """One figure, one panel or a few that share it.

    Attributes:
        id: ``e1_accuracy``; also its file name.
        page: ``e1``: the experiment it belongs to.
        title: What it shows, a few words.
        reading: How to read it, one sentence.
        traces: Plotly traces.
        layout: Plotly layout, on top of the common one.
        header: Names of the columns of its numbers.
        rows: Its numbers as recorded, nothing smoothed; None where there is none.
        notes: What the reader must know: cut-offs, missing fields, mixed conditions.
        height: Height in CSS pixels on a page, without what a long legend needs beyond its first lines.
        is_mixed: Whether it shows runs of different conditions, which it then says itself.
        lack: Why there is nothing to see, where there are no traces; the notes say of which run.
        panels: Its panels as figures of their own, for papers; empty where it is one panel.
    """

    id: str
    page: str
    title: str
    reading: str
    traces: Sequence[Spec]
    layout: Mapping[str, JSON]
    header: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[str, ...] = ()
    height: int = HEIGHT
    is_mixed: bool = False
    lack: str = "nothing recorded"
    panels: tuple[Figure, ...] = ()

    @property
    def spec(self) -> Spec:
        """The whole plotly figure."""
        return {"data": list(self.traces), "layout": self.whole_layout}

    @property
    def whole_layout(self) -> Spec:
        """Its layout with what all figures share."""
        layout = merged(base_layout(), self.layout if self.traces else _nothing(self.lack))
        if self.is_mixed:
            own = layout.get("annotations")
            layout["annotations"] = [*(own if isinstance(own, list) else ()), _MIXED]
        return layout

    @property
    def num_entries(self) -> int:
        """Lines of its legend at most."""
        return num_entries(self.traces, self.layout)

    def as_mixed(self) -> Figure:
        """The same, with its panels, saying that it shows runs of different conditions."""
        return replace(self, is_mixed=True, panels=tuple(panel.as_mixed() for panel in self.panels))


@dataclass
class Sheet:
    """Collects the traces and numbers of a figure while it is drawn."""

    header: tuple[str, ...]
    traces: list[Spec] = field(default_factory=list)
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell the reader something, once."""
        if text not in self.notes:
            self.notes.append(text)


def base_layout() -> Spec:
    """What all figures share: font, grid, room for labels, and a legend under the data where it covers nothing."""
    return {
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 56, "r": 16, "t": 34, "b": 48},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1, "font": {"family": FONT}},
        "legend": {
            "orientation": "h",
            "xref": "container",
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "font": {"size": 12},
        },
    }


def axis(title: str, **more: JSON) -> Spec:
    """An axis with a title and thin lines."""
    common: Spec = {
        "title": {"text": title, "standoff": 8},
        "automargin": True,
        "showline": True,
        "linecolor": INK,
        "gridcolor": GRID,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
    }
    return merged(common, more)


def merged(base: Mapping[str, JSON], over: Mapping[str, JSON]) -> Spec:
    """Two specifications as one; mappings are merged, everything else is replaced."""
    result: Spec = dict(base)
    for name, value in over.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def numbers(values: Iterable[float] | Floats | Ints) -> list[float | None]:
    """Numbers as JSON has them; what is not finite is None."""
    return [float(value) if math.isfinite(value) else None for value in values]


def cell(value: float) -> float | None:
    """A number for a table; None if it is not finite."""
    return float(value) if math.isfinite(value) else None


def num_entries(traces: Iterable[Spec], layout: Mapping[str, JSON]) -> int:
    """Entries of the legend that plotly would draw, at most."""
    if layout.get("showlegend") is False:
        return 0
    return sum(trace.get("showlegend") is not False for trace in traces)


def _nothing(message: str) -> Spec:
    """The layout of a figure that has nothing to show, which says why."""
    return {
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "annotations": [
            {
                "text": message,
                "xref": "paper",
                "yref": "paper",
                "x": 0.5,
                "y": 0.5,
                "showarrow": False,
                "font": {"size": 14},
            }
        ],
    }


def ecdf(values: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Steps of an empirical distribution function.

    Args:
        values: Shape ``(n,)``, finite.

    Returns:
        Distinct values in order, and the share of values at or below each.
    """
    distinct, counts = np.unique(values, return_counts=True)
    return distinct, np.cumsum(counts) / max(1, len(values))


SECOND_UNITS: Final = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
BYTE_UNITS: Final = ((2e9, 1e9, "GB"), (2e6, 1e6, "MB"), (2e3, 1e3, "kB"), (0.0, 1.0, "bytes"))
COUNT_UNITS: Final = ((2e6, 1e6, "million"), (2e3, 1e3, "thousand"), (0.0, 1.0, ""))


def unit_of(most: float, units: Sequence[tuple[float, float, str]]) -> tuple[float, str]:
    """The unit in which numbers up to ``most`` read well: how much it is, and its name."""
    return next((size, name) for least, size, name in units if not most < least or least == 0.0)


def short_number(value: float) -> str:
    """Three digits that matter: ``0.00123``, ``12.3``, ``1,230``."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}" if abs(value) >= 1e-4 else f"{value:.2g}"


def short_bytes(value: float) -> str:
    """``56.9 kB``."""
    size, name = unit_of(value, ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0.0, 1.0, "bytes")))
    return f"{short_number(value / size)} {name}"


def short_seconds(value: float) -> str:
    """``4.2 min``."""
    size, name = unit_of(value, SECOND_UNITS)
    return f"{short_number(value / size)} {name}"
