"""The figures of analyses: few kinds, one look. Imports plotly, so it is imported only when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from plotly import graph_objects as go

from fluxctl.analyses.bins import BinHistory
from fluxctl.plots.style import PALETTE

_FAINT = "rgba(31, 85, 190, 0.25)"  # the palette's first colour


def figure(x: str, y: str) -> go.Figure:
    """An empty figure with its axes named."""
    made = go.Figure()
    made.update_layout(
        template="plotly_white",
        font={"family": "DejaVu Sans, Arial, sans-serif", "size": 13},
        margin={"l": 70, "r": 20, "t": 30, "b": 60},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        xaxis={"title": {"text": escape(x)}, "automargin": True},
        yaxis={"title": {"text": escape(y)}, "automargin": True},
    )
    return made


def bars(names: Sequence[str], split: Mapping[str, Sequence[float]], *, x: str, y: str, stacked: bool) -> go.Figure:
    """Bars, one group or stack per name.

    Args:
        names: Along the x axis.
        split: Heights of each part, in the order of the names.
        x: Title of the x axis.
        y: Title of the y axis.
        stacked: Parts on top of each other rather than side by side.
    """
    made = figure(x, y)
    for index, (part, heights) in enumerate(split.items()):
        made.add_bar(
            x=[escape(name) for name in names],
            y=list(heights),
            name=escape(part),
            marker={"color": PALETTE[index % len(PALETTE)]},
        )
    made.update_layout(barmode="stack" if stacked else "group", showlegend=len(split) > 1)
    made.update_xaxes(type="category")
    return made


def points(xs: Sequence[float], ys: Sequence[float], *, x: str, y: str) -> go.Figure:
    """A scatter of pairs, with a line at zero."""
    made = figure(x, y)
    made.add_scatter(x=list(xs), y=list(ys), mode="markers", marker={"color": PALETTE[0], "size": 8}, name=escape(y))
    made.add_hline(y=0, line={"color": "#666666", "width": 1})
    made.update_layout(showlegend=False)
    return made


def steps(xs: Sequence[float], ys: Sequence[float], *, x: str, y: str) -> go.Figure:
    """A cumulative distribution."""
    made = figure(x, y)
    made.add_scatter(
        x=list(xs), y=list(ys), mode="lines", line={"shape": "hv", "color": PALETTE[0], "width": 2}, name=escape(y)
    )
    made.update_yaxes(range=[0, 1.02])
    made.update_layout(showlegend=False)
    return made


def variance_curves(histories: Sequence[BinHistory], medians: Sequence[float], threshold: float) -> go.Figure:
    """Variance over the iterations of each bin, their median, and the gate's threshold; logarithmic."""
    made = figure("iteration within the bin", "variance")
    xs: list[int | None] = []
    ys: list[float | None] = []
    for history in histories:  # one trace with gaps: hundreds of traces would make the page slow
        xs += [*range(history.num_iterations), None]
        ys += [*history.variances, None]
    made.add_scatter(x=xs, y=ys, mode="lines", line={"color": _FAINT, "width": 1}, name="each bin", hoverinfo="skip")
    made.add_scatter(
        x=list(range(len(medians))),
        y=list(medians),
        mode="lines+markers",
        line={"color": PALETTE[0], "width": 3},
        name="median of the bins that got as far",
    )
    made.add_scatter(
        x=[0, max(1, len(medians) - 1)],
        y=[threshold, threshold],
        mode="lines",
        line={"color": PALETTE[5], "width": 2, "dash": "dash"},
        name=f"threshold {threshold:g}",
    )
    made.update_yaxes(type="log")
    return made


def lines(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str) -> go.Figure:
    """Curves over a common axis."""
    made = figure(x, y)
    for index, (name, (xs, ys)) in enumerate(curves.items()):
        colour = PALETTE[index % len(PALETTE)]
        made.add_scatter(x=list(xs), y=list(ys), mode="lines", name=escape(name), line={"color": colour, "width": 2})
    return made
