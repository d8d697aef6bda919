"""E2: how busy trainers are, and what the aggregator spends its wall time on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from fluxctl.plots.bars import Bar, Facet, draw_facets
from fluxctl.plots.curves import draw_ecdf
from fluxctl.plots.figure import Figure, short_seconds
from fluxctl.plots.group import Group, Options
from fluxctl.plots.seeds import estimate

_PARTS: Final = (
    ("aggregate", "gate, aggregation and server step"),
    ("eval", "evaluation"),
    ("wait", "waiting for updates"),
    ("rest", "selection, dispatch and records"),
)


def draw(groups: Sequence[Group], options: Options) -> list[Figure]:
    """Distribution of the trainers' busy fraction, and the aggregator's wall split."""
    del options
    return [_utilisation(groups), _aggregator(groups)]


def _utilisation(groups: Sequence[Group]) -> Figure:
    return draw_ecdf(
        groups,
        [np.concatenate([shown.series.busy_frac for shown in group.runs]) for group in groups],
        id="e2_utilisation",
        page="e2",
        title="How busy trainers are",
        reading="Share of clients that computed at most so much of the run; further right is busier."
        " Clients that were never asked count as 0.",
        x_title="busy share of the run",
        y_title="share of clients",
        column="busy_frac",
        is_share=True,
    )


def _aggregator(groups: Sequence[Group]) -> Figure:
    header = ("label", "run", "seed", "part", "seconds", "frac")
    rows = []
    facets = []
    for part, meaning in _PARTS:
        bars = []
        for group in groups:
            seconds = [float(getattr(shown.series.aggregator, f"{part}_s")) for shown in group.runs]
            totals = [shown.series.aggregator.total_s for shown in group.runs]
            fracs = [s / total if total > 0 else math.nan for s, total in zip(seconds, totals, strict=True)]
            for shown, one, frac in zip(group.runs, seconds, fracs, strict=True):
                facts = shown.series.facts
                rows.append((group.label, facts.id, facts.seed, part, one, frac))
            whole = estimate([100 * frac for frac in fracs])
            mean = estimate(seconds)
            text = "not recorded" if math.isnan(mean.mean) else f"{short_seconds(mean.mean)}, {whole.mean:.1f} %"
            bars.append(Bar(group, mean, text))
        facets.append(Facet(part, meaning, f"{meaning} (wall seconds)", bars))
    return draw_facets(
        facets,
        id="e2_aggregator",
        page="e2",
        title="Where the aggregator's wall time goes",
        reading="Wall seconds of each part, each on an axis of its own because they may differ a hundredfold;"
        " the four parts add up to the run.",
        x_title="wall seconds",
        header=header,
        rows=rows,
    )
