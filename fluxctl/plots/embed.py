"""Figures within a page: their places, their specifications as data, and the script that draws them.

Shared by the pages of figures, of analyses and of reports. A page carries the drawing library once and forbids itself
every connection, so that a file which would need one fails in the tests and not on a train.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from fluxctl.plots.figure import LEGEND_PX, Figure, Spec, num_entries
from fluxctl.types import JSON

CSP: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_DRAW: Final = Template(
    """
const figures = $data;
const narrow = matchMedia("(max-width: 600px)").matches;
const config = {
  responsive: true, displaylogo: false, displayModeBar: !narrow, modeBarButtonsToRemove: ["lasso2d", "select2d"]
};
const draw = ({id, entries, data, layout}) => {
  let lines = entries;
  const div = document.getElementById(id);
  if (narrow) {
    layout.font.size = 11; layout.legend.font.size = 11; layout.margin.r = 8; layout.margin.t = 22;
    for (const note of layout.annotations ?? []) note.font.size -= 2;
    for (const trace of data.filter(trace => (trace.name ?? "").length > 40 && trace.showlegend !== false)) {
      trace.name = trace.name.replace("  ", "<br>");  // a name never holds two blanks itself
      ++lines;
    }
  }
  // a legend has one entry to a line on a phone, two or three elsewhere
  div.style.height = `$${div.offsetHeight + $line * Math.max(0, (narrow ? lines : Math.ceil(lines / 2)) - 2)}px`;
  Plotly.newPlot(div, data, layout, config);
};
// within a closed part there is no width to draw for: that figure waits until the part is opened
const whenOpen = figure => {
  const part = document.getElementById(figure.id).closest("details:not([open])");
  part ? part.addEventListener("toggle", () => whenOpen(figure), {once: true}) : draw(figure);
};
// and one that was drawn before takes the width that there is now
document.addEventListener("toggle", event => {
  for (const plot of event.target.querySelectorAll(".js-plotly-plot")) if (plot.offsetParent) Plotly.Plots.resize(plot);
}, true);
figures.forEach(whenOpen);
"""
)


@dataclass(frozen=True)
class Embedded:
    """A figure in a page.

    Attributes:
        id: Of its place; of letters, digits, ``-`` and ``_``, and unlike any other of the page.
        traces: Plotly traces.
        layout: The whole plotly layout.
        height: Of its place in CSS pixels, without what a long legend needs beyond its first lines.
    """

    id: str
    traces: Sequence[Spec]
    layout: Mapping[str, JSON]
    height: int

    @classmethod
    def of(cls, figure: Figure, prefix: str = "") -> Embedded:
        """A figure under its own name, with something before it where a page shows several of one name."""
        return cls(f"{prefix}{figure.id}", figure.traces, figure.whole_layout, figure.height)

    @property
    def place(self) -> str:
        """The element that it is drawn into."""
        return f'<div id="{escape(self.id)}" style="width:100%;height:{self.height}px"></div>'


@cache
def library() -> str:
    """The drawing library as JavaScript, 4.5 MB."""
    import plotly

    return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def script(figures: Sequence[Embedded]) -> str:
    """The script that draws figures; it stands below their places and the library."""
    data = [
        {
            "id": figure.id,
            "entries": num_entries(figure.traces, figure.layout),
            "data": list(figure.traces),
            "layout": figure.layout,
        }
        for figure in figures
    ]
    return _DRAW.substitute(data=script_json(data), line=LEGEND_PX)


def script_json(data: object) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
