"""E4: what went over the network, in each direction, and how large messages are."""

from __future__ import annotations

from collections.abc import Sequence

from fluxctl.plots.bars import Bar, Facet, draw_facets
from fluxctl.plots.figure import Figure, Sheet, Spec, axis, cell, short_bytes
from fluxctl.plots.group import Group, Options
from fluxctl.plots.seeds import estimate
from fluxctl.plots.style import legend_name, plain

_WAYS = (("down", "to clients"), ("up", "from clients"))


def draw(groups: Sequence[Group], options: Options) -> list[Figure]:
    """Bytes in each direction, and message sizes by kind."""
    del options
    return [_traffic(groups), _sizes(groups)]


def _traffic(groups: Sequence[Group]) -> Figure:
    facets = []
    rows = []
    for way, title in _WAYS:
        bars = []
        for group in groups:
            totals = [shown.series.total_bytes(way) for shown in group.runs]
            facts = [shown.series.facts for shown in group.runs]
            rows += [(group.label, f.id, f.seed, way, total) for f, total in zip(facts, totals, strict=True)]
            mean = estimate([total / 1e6 for total in totals])
            bars.append(Bar(group, mean, short_bytes(1e6 * mean.mean)))
        facets.append(Facet(way, f"{way}, {title}", f"megabytes {way}, {title}", bars))
    return draw_facets(
        facets,
        id="e4_traffic",
        page="e4",
        title="Bytes sent in the whole run",
        reading="All messages of the run, retries included; the two directions have axes of their own.",
        x_title="megabytes (10⁶ bytes)",
        header=("label", "run", "seed", "direction", "bytes"),
        rows=rows,
    )


def _sizes(groups: Sequence[Group]) -> Figure:
    sheet = Sheet(
        ("label", "run", "seed", "direction", "kind", "count", "mean_bytes", "min_bytes", "max_bytes", "bytes")
    )
    kinds: dict[str, None] = {}
    for group in groups:
        points: dict[str, tuple[int, int]] = {}
        for shown in group.runs:
            facts = shown.series.facts
            for kind in shown.series.messages:
                name = f"{kind.direction}: {kind.kind.replace('_', ' ')}"
                count, total = points.get(name, (0, 0))
                points[name] = count + kind.count, total + kind.total_bytes
                sheet.rows.append(
                    (
                        group.label,
                        facts.id,
                        facts.seed,
                        kind.direction,
                        kind.kind,
                        kind.count,
                        cell(kind.mean_bytes),
                        kind.min_bytes,
                        kind.max_bytes,
                        kind.total_bytes,
                    )
                )
        if not points:
            sheet.note(f"{group.label} records no messages.")
            continue
        kinds.update(dict.fromkeys(points))
        sheet.traces.append(_dots(group, points))
    layout: Spec = {
        "xaxis": axis("mean message size (bytes)", type="log", dtick=1, tickformat="~s"),
        "yaxis": axis(
            "",
            type="category",
            categoryorder="array",
            categoryarray=[_two_lines(kind) for kind in sorted(kinds)],
            range=[len(kinds) - 0.5, -0.5],
        ),
        "margin": {"l": 12},
        "scattermode": "group",
    }
    return Figure(
        id="e4_sizes",
        page="e4",
        title="How large messages are",
        reading="Mean size by direction and kind on a logarithmic axis; hover for counts.",
        traces=sheet.traces,
        layout=layout,
        lack="no messages recorded",
        header=sheet.header,
        rows=sheet.rows,
        notes=tuple(sheet.notes),
        height=max(300, 70 * len(kinds) + 130 + 22 * len(groups)),
    )


def _two_lines(kind: str) -> str:
    """A direction and a kind, one below the other: side by side they take half the width of a phone."""
    direction, _, name = kind.partition(": ")
    return f"{plain(direction)}:<br>{plain(name)}"


def _dots(group: Group, points: dict[str, tuple[int, int]]) -> Spec:
    means = [total / count for count, total in points.values()]
    texts = [
        f"{short_bytes(mean)}, {count:,} messages" for mean, (count, _) in zip(means, points.values(), strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [cell(mean) for mean in means],
        "y": [_two_lines(kind) for kind in points],
        "name": legend_name(group.look),
        "offsetgroup": group.label,
        "orientation": "h",
        "hovertext": texts,
        "hoverinfo": "text+name",
        "marker": {"symbol": group.look.marker, "size": 11, "color": group.look.colour},
        "cliponaxis": False,
    }
