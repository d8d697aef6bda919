"""E3: what computing and sending bought: the fall of the loss by hour of computing, by pass and by byte."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.plots.bars import Bar, Facet, draw_facets
from fluxctl.plots.figure import Cell, Figure, short_number
from fluxctl.plots.group import Group, Options, Shown, cut_notes
from fluxctl.plots.seeds import Estimate, estimate


@dataclass(frozen=True, slots=True)
class Productivity:
    """What one run achieved up to the last evaluation shown.

    Attributes:
        loss_drop: Fall of the test loss since the first evaluation, nats; nan without two numbers.
        compute_h: Hours of computing of all clients, as modelled.
        passes: Forward passes, in millions.
        gigabytes: Sent in both directions, in 10^9 bytes.
    """

    loss_drop: float
    compute_h: float
    passes: float
    gigabytes: float

    def per(self, amount: float) -> float:
        """Loss drop for one of something; nan if none was used."""
        return self.loss_drop / amount if amount > 0 else math.nan


_MEASURES: Final[tuple[tuple[str, str, Callable[[Productivity], float]], ...]] = (
    ("compute_h", "per hour of client computing", lambda p: p.compute_h),
    ("million_passes", "per million forward passes", lambda p: p.passes),
    ("gigabytes", "per gigabyte sent", lambda p: p.gigabytes),
)


def productivity(shown: Shown) -> Productivity:
    """Reduce a run to what it achieved and used."""
    evaluations, updates = shown.series.evaluations, shown.series.updates
    rows = np.flatnonzero(np.isfinite(evaluations.loss[: shown.num_evals]))
    if len(rows) < 2:
        return Productivity(*[math.nan] * 4)
    first, last = int(rows[0]), int(rows[-1])
    done = updates.due_s <= evaluations.engine_s[last]
    return Productivity(
        loss_drop=float(evaluations.loss[first] - evaluations.loss[last]),
        compute_h=float(np.nansum(updates.duration_s[done])) / 3600,
        passes=float(evaluations.passes[last]) / 1e6,
        gigabytes=float(evaluations.bytes_down[last] + evaluations.bytes_up[last]) / 1e9,
    )


def draw(groups: Sequence[Group], options: Options) -> list[Figure]:
    """Loss drop for each of three costs, on an axis of its own."""
    found = [[productivity(shown) for shown in group.runs] for group in groups]
    facets = []
    for name, title, cost in _MEASURES:
        bars = [
            Bar(group, value, _text(value))
            for group, runs in zip(groups, found, strict=True)
            if (value := estimate([run.per(cost(run)) for run in runs]))
        ]
        facets.append(Facet(name, f"loss drop {title}", f"loss drop {title} (nats)", bars))
    rows: list[tuple[Cell, ...]] = [
        (
            group.label,
            shown.series.facts.id,
            shown.series.facts.seed,
            run.loss_drop,
            *(number for _, _, cost in _MEASURES for number in (cost(run), run.per(cost(run)))),
        )
        for group, runs in zip(groups, found, strict=True)
        for shown, run in zip(group.runs, runs, strict=True)
    ]
    header = ("label", "run", "seed", "loss_drop", *(n for name, _, _ in _MEASURES for n in (name, f"drop_per_{name}")))
    missing = [f"{g.label} has fewer than two evaluations." for g, r in zip(groups, found, strict=True) if _none(r)]
    return [
        draw_facets(
            facets,
            id="e3_productivity",
            page="e3",
            title="What computing and sending bought",
            reading="Fall of the test loss between the first and the last evaluation shown, divided by what it cost;"
            " longer is more efficient. Each cost has its own axis.",
            x_title="loss drop (nats)",
            header=header,
            rows=rows,
            notes=[*missing, *cut_notes(groups, options.cut)],
        )
    ]


def _none(runs: Sequence[Productivity]) -> bool:
    return all(math.isnan(run.loss_drop) for run in runs)


def _text(value: Estimate) -> str:
    if math.isnan(value.mean):
        return "no two evaluations"
    half = "" if math.isnan(value.half_width) else f" ± {short_number(value.half_width)}"
    return f"{short_number(value.mean)}{half}"
