"""Where the wall time went: phases of the clients' steps, parts of the aggregator's cycles, timed functions.

Engine time is modelled; this is about the machine that ran it. Phases of steps are processor seconds of compute
threads, so their sum may exceed the run's wall time. Timed functions come from ``step_timing`` lines of
``wall.jsonl``, each exclusive of the functions that it calls, so that nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.analyses.figures import bars
from fluxctl.analyses.reading import events_of
from fluxctl.analyses.result import (
    Analysis,
    Cell,
    Chart,
    Drawing,
    Grid,
    Measure,
    finite,
    handy_seconds,
    percent,
    plural,
)
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Columns, Floats, Kind, Table, Wanted
from fluxctl.telemetry.reader import read_lines
from fluxctl.types import JSON

STEP_TIMING: Final = "step_timing"
_PHASES: Final = ("fetch_s", "pre_train_s", "to_device_s", "train_s", "from_device_s", "post_train_s")
_CYCLE_PARTS: Final = ("drain_tail_s", "aggregate_s", "eval_s")
WANTED: Final[Wanted] = {
    "trainer_round": {
        "round": Kind.INT,
        "bin": Kind.INT,
        "wall.compute_s": Kind.FLOAT,
        "wall.overran": Kind.INT,
        **{f"wall.{name}": Kind.FLOAT for name in _PHASES},
    },
    "agg_round": {
        "wall.wall_s": Kind.FLOAT,
        **{f"wall.{name}": Kind.FLOAT for name in _CYCLE_PARTS},
    },
}


@dataclass(frozen=True)
class Part:
    """Everything that was measured under one name.

    Attributes:
        group: ``client step``, ``aggregator cycle`` or ``function``.
        name: What was timed.
        seconds: Its wall or processor seconds, one value per measurement.
    """

    group: str
    name: str
    seconds: Floats

    @property
    def total_s(self) -> float:
        """Sum of all measurements."""
        return float(self.seconds.sum())

    def row(self, of_s: float) -> tuple[Cell, ...]:
        """The row of the table, with the share of ``of_s``."""
        at = self.seconds
        share = self.total_s / of_s if of_s > 0 else None
        quantiles = np.quantile(at, (0.5, 0.95)).tolist()
        return (self.group, self.name, len(at), self.total_s, share, float(at.mean()), *quantiles, float(at.max()))

    def to_json(self, of_s: float) -> dict[str, JSON]:
        """The part as JSON."""
        _, _, num, total, share, mean, p50, p95, most = self.row(of_s)
        return {
            "group": self.group,
            "name": self.name,
            "num": num,
            "total_s": total,
            "share": share,
            "mean_s": mean,
            "p50_s": p50,
            "p95_s": p95,
            "max_s": most,
        }


def timing(folder: RunFolder, *, columns: Columns | None = None) -> Analysis:
    """Add up what a run measured on the wall.

    Args:
        folder: A run; measurements that it lacks are left out.
        columns: Its events, if they were read already with at least :data:`WANTED`; None = read them.

    Raises:
        NothingToDoError: If it has no events.
    """
    columns = events_of(folder, WANTED, columns)
    steps = _parts("client step", columns["trainer_round"], _PHASES)
    cycles = _parts("aggregator cycle", columns["agg_round"], _CYCLE_PARTS)
    functions = _functions(folder)
    wall_s = _last(columns["agg_round"], "wall.wall_s")
    num_overran = _num_overran(columns["trainer_round"])
    groups = [(part, _total(group)) for group in (steps, cycles, functions) for part in group]
    data: dict[str, JSON] = {
        "wall_s": wall_s,
        "num_steps": len(columns["trainer_round"]),
        "num_cycles": len(columns["agg_round"]),
        "num_overran": num_overran,
        "parts": [part.to_json(of_s) for part, of_s in groups],
    }
    measures = (
        Measure("of"),
        Measure("part"),
        Measure("times", ",.0f"),
        Measure("total", "s"),
        Measure("share", ".1%"),
        *(Measure(name, "s") for name in ("mean", "p50", "p95", "max")),
    )
    grid = Grid("Wall time by part", measures, tuple(part.row(of_s) for part, of_s in groups), 2)
    return Analysis(
        "timing",
        folder.id,
        _conclusion(steps, cycles, wall_s, num_overran, len(columns["trainer_round"])),
        (grid,),
        data,
        (_by_bin(columns), _shares(groups)),
        notes=() if functions else ("The run recorded no times of single functions (step_timing).",),
    )


def _parts(group: str, table: Table, names: Sequence[str]) -> list[Part]:
    parts = []
    for name in names:
        path = f"wall.{name}"
        if path in table:
            values = table.numbers(path)
            known = values[np.isfinite(values)]
            if len(known) and known.any():  # a part that took no time at all is not a part of this run
                parts.append(Part(group, name.removesuffix("_s").replace("_", " "), known))
    return parts


def _functions(folder: RunFolder) -> list[Part]:
    """Times of functions, the longest in total first; none from a run that timed none."""
    if not folder.wall_events.exists():
        return []
    found: dict[str, list[float]] = {}
    for _, line in read_lines(folder.wall_events):
        if line.get("event") == STEP_TIMING:
            seconds, name = line.get("duration_s"), line.get("function")
            if isinstance(seconds, int | float) and isinstance(name, str):
                found.setdefault(name, []).append(float(seconds))
    parts = [Part("function", name, np.array(values)) for name, values in found.items()]
    return sorted(parts, key=lambda part: -part.total_s)


def _total(parts: Sequence[Part]) -> float:
    return sum(part.total_s for part in parts)


def _last(table: Table, path: str) -> float | None:
    return finite(float(table.numbers(path)[-1])) if path in table else None


def _num_overran(steps: Table) -> int:
    return int((steps.ints("wall.overran") == 1).sum()) if "wall.overran" in steps else 0


def _conclusion(
    steps: Sequence[Part], cycles: Sequence[Part], wall_s: float | None, num_overran: int, num_steps: int
) -> str:
    if not num_steps:
        return "No client step was timed."
    compute_s = _total(steps)
    text = f"{plural(num_steps, 'client step')} took {handy_seconds(compute_s)} of compute"
    if steps and compute_s > 0:
        longest = max(steps, key=lambda part: part.total_s)
        text += f", {percent(longest.total_s / compute_s)} of it in {longest.name}"
    if wall_s:
        text += f", in {handy_seconds(wall_s)} of wall time"
    if cycles:
        text += f"; the aggregator spent {handy_seconds(_total(cycles))}"
    if num_overran:
        text += f"; {plural(num_overran, 'step')} took longer than modelled"
    return text + "."


def _by_bin(columns: Columns) -> Chart:
    """Compute of the client steps over the run: mean seconds of each phase in each bin that was visited."""
    steps = columns["trainer_round"]
    present = [name for name in _PHASES if f"wall.{name}" in steps] if len(steps) else []
    places: list[str] = []
    means: dict[str, list[float]] = {}
    if present:
        pairs = np.stack([steps.ints("round"), steps.ints("bin")], axis=1)
        unique, owner, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        owner = owner.reshape(-1)
        places = [f"{round_}.{bin_}" for round_, bin_ in unique.tolist()]
        for name in present:
            values = np.nan_to_num(steps.numbers(f"wall.{name}"))
            sums = np.bincount(owner, weights=values, minlength=len(unique))
            if sums.any():
                means[name.removesuffix("_s").replace("_", " ")] = (1e3 * sums / counts).tolist()

    def draw() -> Drawing:
        return bars(places, means, x="round.bin", y="mean milliseconds of a step", stacked=True)

    rows: list[tuple[Cell, ...]] = [
        (place, *(values[index] for values in means.values())) for index, place in enumerate(places)
    ]
    return Chart("timing_by_bin", "Phases of a client step by bin", draw, ("round.bin", *means), rows)


def _shares(groups: Sequence[tuple[Part, float]]) -> Chart:
    names = [f"{part.group}: {part.name}" for part, _ in groups]
    totals = [part.total_s for part, _ in groups]

    def draw() -> Drawing:
        return bars(names, {"total": totals}, x="part", y="seconds in total", stacked=False)

    return Chart("timing", "Wall time by part", draw, ("part", "seconds"), list(zip(names, totals, strict=True)))
