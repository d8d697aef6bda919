"""The figures of analyses: few kinds, one look, the look of all other figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluxctl.analyses.bins import BinHistory
from fluxctl.analyses.result import Drawing
from fluxctl.plots.figure import Spec, axis, base_layout, merged, numbers
from fluxctl.plots.style import MUTED, PALETTE, plain
from fluxctl.types import JSON

_FAINT = "rgba(31, 85, 190, 0.25)"  # the palette's first colour
_LONGEST = 60  # characters of a name along an axis or in a legend


def drawing(traces: Sequence[Spec], *, x: Spec, y: Spec, **more: JSON) -> Drawing:
    """Traces between two axes, with what all figures share."""
    return Drawing(traces, merged(base_layout(), {"xaxis": x, "yaxis": y, **more}))


def bars(
    names: Sequence[str],
    split: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    stacked: bool,
    colours: Sequence[str] = PALETTE,
) -> Drawing:
    """Bars, one group or stack per name.

    Args:
        names: Along the x axis.
        split: Heights of each part, in the order of the names.
        x: Title of the x axis.
        y: Title of the y axis.
        stacked: Parts on top of each other rather than side by side.
        colours: Of the parts, from the first again where there are more parts.
    """
    traces: list[Spec] = [
        {
            "type": "bar",
            "x": [plain(name, _LONGEST) for name in names],
            "y": numbers(heights),
            "name": plain(part, _LONGEST),
            "marker": {"color": colours[index % len(colours)]},
        }
        for index, (part, heights) in enumerate(split.items())
    ]
    return drawing(
        traces,
        x=axis(plain(x, _LONGEST), type="category", showgrid=False),
        y=axis(plain(y, _LONGEST)),
        legend={"traceorder": "normal"},
        barmode="stack" if stacked else "group",
        showlegend=len(split) > 1,
    )


def points(xs: Sequence[float], ys: Sequence[float], *, x: str, y: str) -> Drawing:
    """A scatter of pairs, with a line at zero."""
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(xs),
        "y": numbers(ys),
        "marker": {"color": PALETTE[0], "size": 8},
        "name": plain(y, _LONGEST),
    }
    level = axis(plain(y, _LONGEST), zeroline=True, zerolinecolor=MUTED)
    return drawing([trace], x=axis(plain(x, _LONGEST)), y=level, showlegend=False)


def steps(xs: Sequence[float], ys: Sequence[float], *, x: str, y: str) -> Drawing:
    """A cumulative distribution."""
    trace: Spec = {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(xs),
        "y": numbers(ys),
        "line": {"shape": "hv", "color": PALETTE[0], "width": 2},
        "name": plain(y, _LONGEST),
    }
    level = axis(plain(y, _LONGEST), range=[0, 1.02], tickformat=".0%")
    return drawing([trace], x=axis(plain(x, _LONGEST)), y=level, showlegend=False)


def variance_curves(histories: Sequence[BinHistory], medians: Sequence[float], threshold: float) -> Drawing:
    """Variance over the iterations of each bin, their median, and the gate's threshold; logarithmic."""
    xs: list[JSON] = []
    ys: list[JSON] = []
    for history in histories:  # one trace with gaps: hundreds of traces would make the page slow
        xs += [*range(history.num_iterations), None]
        ys += [*history.variances, None]
    each: Spec = {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": {"color": _FAINT, "width": 1}}
    median: Spec = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(range(len(medians))),
        "y": numbers(medians),
        "line": {"color": PALETTE[0], "width": 3},
        "name": "median of the bins that got as far",
    }
    level: Spec = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, max(1, len(medians) - 1)],
        "y": [threshold, threshold],
        "line": {"color": PALETTE[5], "width": 2, "dash": "dash"},
        "name": f"threshold {threshold:g}",
    }
    traces = [{**each, "name": "each bin", "hoverinfo": "skip"}, median, level]
    return drawing(
        traces, x=axis("iteration within the bin"), y=axis("variance", type="log", dtick="D2", tickformat="~g")
    )
