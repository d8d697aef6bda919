"""Single runs on their way to an accuracy, and what to call them among others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxctl.analyses.energy import PowerModel, step_energy_j
from fluxctl.analyses.result import finite
from fluxctl.errors import NothingToDoError
from fluxctl.telemetry.series import RunSeries
from fluxctl.types import JSON

COSTS: Final = ("engine_s", "wall_s", "passes", "bytes_down", "bytes_up", "energy_j")


@dataclass(frozen=True)
class Arrival:
    """One run's way to the target.

    Attributes:
        run: The run's id.
        label: What it is compared as.
        seed: Its seed.
        best: Its best accuracy.
        bins: Bins committed on arrival; None if it never arrived.
        costs: By the names of :data:`COSTS`; nan if it never arrived or did not record it.
    """

    run: str
    label: str
    seed: int | None
    best: float
    bins: int | None
    costs: Mapping[str, float]

    def to_json(self) -> dict[str, JSON]:
        """The run as JSON."""
        costs = {name: finite(value) for name, value in self.costs.items()}
        return {
            "run": self.run,
            "label": self.label,
            "seed": self.seed,
            "best_accuracy": finite(self.best),
            "reached": self.bins is not None,
            "bins": self.bins,
            **costs,
        }


def step_memory_by_label(runs: Sequence[RunSeries], measure: Callable[[Path], int | None]) -> dict[str, int]:
    """Memory of a client's step for each label, as recorded, or measured once: it depends on neither seed nor clock.

    Args:
        runs: What is compared.
        measure: From a run directory to bytes; None where it cannot be measured.
    """
    sizes: dict[str, int] = {}
    known: dict[str, int | None] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        if label in sizes or run.facts.folder is None:
            continue
        recorded = _recorded_memory(run)
        if recorded is not None:
            sizes[label] = recorded
            continue
        name = run.facts.seedless or label
        if name not in known:
            known[name] = measure(run.facts.folder)
        size = known[name]
        if size is not None:
            sizes[label] = size
    return sizes


def _recorded_memory(run: RunSeries) -> int | None:
    """Peak bytes of a step by the run's own method; None if the run did not measure it."""
    config = run.facts.config
    if config is None:
        return None
    uses_gradients = config.step.estimator in ("backprop", "local_sgd")
    size = run.facts.summary.get("backprop_memory_bytes" if uses_gradients else "forward_memory_bytes")
    return size if isinstance(size, int) else None


def best_accuracy(run: RunSeries) -> float:
    """Highest accuracy of a run.

    Raises:
        NothingToDoError: If it has no evaluation.
    """
    peak = run.evaluations.peak
    if peak is None:
        raise NothingToDoError("the run has no evaluation", where=run.facts.id)
    return float(run.evaluations.accuracy[peak])


def labels_of(runs: Sequence[RunSeries]) -> list[str]:
    """Labels, with the mode where a label occurs in both."""
    modes: dict[str, set[str]] = {}
    for run in runs:
        modes.setdefault(run.facts.label, set()).add(run.facts.mode)
    return [
        f"{run.facts.label} {run.facts.mode}" if len(modes[run.facts.label]) > 1 else run.facts.label for run in runs
    ]


def arrival(run: RunSeries, label: str, best: float, target: float, power: PowerModel) -> Arrival:
    """Add up what a run spent until its first evaluation at the target.

    Args:
        run: A run.
        label: What it is compared as.
        best: Its best accuracy.
        target: The accuracy to reach.
        power: Assumption for the energy.
    """
    at = run.evaluations.first_at(target)
    if at is None:
        return Arrival(run.facts.id, label, run.facts.seed, best, None, dict.fromkeys(COSTS, math.nan))
    progress = run.evaluations
    energy_j = math.nan
    if run.facts.config is not None:
        spent = step_energy_j(run.facts.config, run.updates, power)
        energy_j = float(spent[run.updates.due_s <= progress.engine_s[at]].sum())
    costs = {
        "engine_s": float(progress.engine_s[at]),
        "wall_s": float(progress.wall_s[at]),
        "passes": float(progress.passes[at]),
        "bytes_down": float(progress.bytes_down[at]),
        "bytes_up": float(progress.bytes_up[at]),
        "energy_j": energy_j,
    }
    return Arrival(run.facts.id, label, run.facts.seed, best, int(progress.num_commits[at]), costs)
