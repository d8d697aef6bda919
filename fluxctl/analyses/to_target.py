"""What it cost to get to an accuracy: engine time, wall time, passes, bytes, memory and energy, over seeds.

The accuracy is one that every compared run reached, so that nobody is charged for a goal that another one gave up.
Costs are those up to the first evaluation at or above it, raw and not smoothed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import numpy as np

from fluxctl.analyses.arrivals import COSTS, Arrival, arrival, best_accuracy, labels_of
from fluxctl.analyses.energy import PowerModel
from fluxctl.analyses.figures import bars
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, finite, plural
from fluxctl.errors import ConfigError
from fluxctl.plots.conditions import refuse_mixed
from fluxctl.plots.style import PALETTE, Wanted, looks_for
from fluxctl.telemetry.series import RunSeries
from fluxctl.types import JSON

_MEASURES: Final = (
    Measure("engine time", "s"),
    Measure("wall time", "s"),
    Measure("passes", ",.0f"),
    Measure("down", "B"),
    Measure("up", "B"),
    Measure("energy (J)", ",.0f"),
)
_WORDS: Final = {"engine_s": "engine time", "passes": "forward passes", "bytes": "bytes", "energy_j": "modelled energy"}


def to_target(
    runs: Sequence[RunSeries],
    target: float | None = None,
    power: PowerModel = PowerModel(),  # noqa: B008 - frozen
    memory: Mapping[str, int] | None = None,
    *,
    allow_mixed: bool = False,
) -> Analysis:
    """Compare what runs needed to reach an accuracy.

    Args:
        runs: At least one; runs of one label are seeds of one thing.
        target: The accuracy; None = the highest that all of them reach, in steps of .001.
        power: Assumption for the energy.
        memory: Peak bytes of a client's step by label, where it was measured.
        allow_mixed: Compare runs of different conditions all the same.

    Raises:
        NothingToDoError: If a run has no evaluation.
        ConfigError: If the runs were made under different conditions, or a target is no accuracy.
    """
    if not allow_mixed:
        refuse_mixed([run.facts for run in runs])
    peaks = [best_accuracy(run) for run in runs]
    level = math.floor(min(peaks) * 1000 + 1e-9) / 1000 if target is None else target
    if not 0 < level <= 1:
        raise ConfigError(f"{level:g} is no accuracy", where="--target", hint="for example 0.75, or auto")
    labels = labels_of(runs)
    arrivals = [arrival(run, label, best, level, power) for run, label, best in zip(runs, labels, peaks, strict=True)]
    groups = {label: [one for one in arrivals if one.label == label] for label in dict.fromkeys(labels)}
    sizes = memory or {}
    data: dict[str, JSON] = {
        "target": level,
        "is_auto": target is None,
        "power": power.to_json(),
        "runs": [one.to_json() for one in arrivals],
        "groups": [_group_json(label, ones, sizes.get(label)) for label, ones in groups.items()],
    }
    notes = [
        f"Energy is modelled: {power.compute_watts:g} W while a client computes, {power.radio_watts:g} W while it "
        "sends or receives, over modelled seconds."
    ]
    missed = [label for label, ones in groups.items() if any(one.bins is None for one in ones)]
    if missed:
        notes.append(f"Not every seed of {', '.join(missed)} reached it; costs are means over those that did.")
    return Analysis(
        "to-target",
        ", ".join(run.facts.id for run in runs),
        _conclusion(level, groups, target is None),
        (_grid(level, groups, sizes),),
        data,
        (_chart(groups, _colours(runs, labels)),),
        is_ok=not missed,
        notes=tuple(notes),
    )


def _mean(ones: Sequence[Arrival], cost: str) -> float:
    values = [value for one in ones if math.isfinite(value := _cost(one, cost))]
    return fmean(values) if values else math.nan


def _cost(one: Arrival, cost: str) -> float:
    return one.costs["bytes_down"] + one.costs["bytes_up"] if cost == "bytes" else one.costs[cost]


def _group_json(label: str, ones: Sequence[Arrival], memory: int | None) -> dict[str, JSON]:
    reached = [one for one in ones if one.bins is not None]
    spread: dict[str, JSON] = {}
    for cost in COSTS:
        values = np.array([one.costs[cost] for one in reached])
        known = values[np.isfinite(values)]
        numbers = (known.mean(), known.min(), known.max()) if len(known) else (math.nan,) * 3
        spread[cost] = dict(zip(("mean", "min", "max"), map(finite, map(float, numbers)), strict=True))
    return {
        "label": label,
        "num_seeds": len(ones),
        "num_reached": len(reached),
        "step_memory_bytes": memory,
        "costs": spread,
    }


def _conclusion(target: float, groups: Mapping[str, Sequence[Arrival]], is_auto: bool) -> str:
    whose = "which every run reaches" if is_auto else "as asked"
    text = f"To an accuracy of {target:g}, {whose}"
    arrived = {label: ones for label, ones in groups.items() if any(one.bins is not None for one in ones)}
    if not arrived:
        return f"No run reaches an accuracy of {target:g}."
    if all(one.bins in (0, None) for ones in groups.values() for one in ones):
        return f"An accuracy of {target:g} costs nothing: the untrained models have it."
    if len(groups) == 1:
        label, ones = next(iter(arrived.items()))
        passes, engine_s = _mean(ones, "passes"), _mean(ones, "engine_s")
        return f"{text}, {label} needs {engine_s:,.0f} engine seconds and {passes:,.0f} forward passes."
    winners: dict[str, list[str]] = {}
    for cost, word in _WORDS.items():
        means = {label: mean for label, ones in arrived.items() if math.isfinite(mean := _mean(ones, cost))}
        least = [label for label, mean in means.items() if mean == min(means.values())]
        if least and len(least) < len(arrived):
            winners.setdefault(_and(least), []).append(word)
    needs = [f"{who} {'need' if ' and ' in who else 'needs'} the least {_and(what)}" for who, what in winners.items()]
    gone = [label for label in groups if label not in arrived]
    told = [*(needs or ["all need the same"]), *([f"{_and(gone)} never got there"] if gone else [])]
    return f"{text}: {'; '.join(told)}."


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _grid(target: float, groups: Mapping[str, Sequence[Arrival]], memory: Mapping[str, int]) -> Grid:
    rows: list[tuple[Cell, ...]] = []
    for label, ones in groups.items():
        reached = [one for one in ones if one.bins is not None]
        bins = fmean(one.bins for one in reached if one.bins is not None) if reached else None
        texts = [_range_text(measure, [one.costs[cost] for one in reached]) for measure, cost in _columns()]
        rows.append((label, f"{len(reached)} of {len(ones)}", bins, *texts, memory.get(label)))
    measures = (
        Measure("system"),
        Measure("seeds there"),
        Measure("bins", ",.0f"),
        *(Measure(measure.title) for measure, _ in _columns()),
        Measure("step memory", "B"),
    )
    return Grid(f"Cost to an accuracy of {target:g}: mean, and range over seeds", measures, tuple(rows))


def _columns() -> list[tuple[Measure, str]]:
    return list(zip(_MEASURES, COSTS, strict=True))


def _range_text(measure: Measure, values: Sequence[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    mean = measure.text(fmean(known))
    return mean if len(known) == 1 else f"{mean} ({measure.text(min(known))} to {measure.text(max(known))})"


def _colours(runs: Sequence[RunSeries], labels: Sequence[str]) -> tuple[str, ...]:
    """The registered colour of each label; where two share one, as both modes of a system do, the palette's."""
    first = dict(zip(reversed(labels), reversed(runs), strict=True))
    looks = looks_for([Wanted(label, first[label].facts.baseline) for label in dict.fromkeys(labels)])
    colours = tuple(look.colour for look in looks)
    return colours if len(set(colours)) == len(colours) else PALETTE


def _chart(groups: Mapping[str, Sequence[Arrival]], colours: Sequence[str]) -> Chart:
    """Costs as multiples of the first system's."""
    labels = list(groups)
    costs = ("engine_s", "passes", "bytes", "energy_j")
    means = {label: [_mean(groups[label], cost) for cost in costs] for label in labels}
    base = means[labels[0]]
    split = {label: [_ratio(one, of) for one, of in zip(values, base, strict=True)] for label, values in means.items()}

    def draw() -> Drawing:
        names, title = [_WORDS[cost] for cost in costs], f"multiple of {labels[0]}"
        return bars(names, split, x="cost", y=title, stacked=False, colours=colours)

    rows = [(label, cost, value) for label in labels for cost, value in zip(costs, means[label], strict=True)]
    title = f"Cost to the target, as a multiple of {labels[0]}; {plural(len(labels), 'system')}"
    return Chart("to_target", title, draw, ("system", "cost", "mean"), rows)


def _ratio(one: float, of: float) -> float:
    return one / of if of else math.nan
