"""Ways to measure a directional derivative, compared on a run's own model: cost, and whether they agree.

The fast path leaves out passes whose values only feed logs, so it must give the very same bits as the plain path. The
three estimators are different arithmetic for one number, so they agree within a tolerance. Latency is measured here
and now, on this machine; passes and memory are counted and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxctl.analyses.figures import bars
from fluxctl.analyses.jvp_paths import ESTIMATORS, Agreement, Path, compare_paths
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, handy_seconds, plural
from fluxctl.config.model import Config, StepConfig
from fluxctl.data import Shards
from fluxctl.types import JSON
from fluxctl.world.seeds import stream

if TYPE_CHECKING:
    from fluxctl.learn.learner import Learner
    from fluxctl.learn.local_step import StepRequest

TOLERANCE: Final = 0.1  # of the largest derivative of a step; a forward difference is off by about h/2 |v' H v|
NUM_TASKS: Final = 20


def jvp(
    run: str,
    config: Config,
    learner: Learner,
    shards: Shards,
    tensors: dict[str, np.ndarray] | None,
    *,
    num_tasks: int = NUM_TASKS,
    tolerance: float = TOLERANCE,
) -> Analysis:
    """Compare estimators and paths on tasks of a run.

    Args:
        run: The run's id.
        config: Its configuration; a control with back-propagation is compared with one random direction instead.
        learner: Its model and features.
        shards: Who owns which text.
        tensors: Weights to step from, as a checkpoint holds them; None = the untrained model.
        num_tasks: Client steps to compare.
        tolerance: Largest relative difference that two estimators may show.

    Raises:
        ValueError: If the weights are not those of this model.
    """
    base = _forward_gradient(config.step)
    requests = list(_tasks(config, learner, shards, tensors, num_tasks))
    backprop_bytes = learner.with_step(base).step_memory(requests[0]).backprop_bytes
    paths = list(compare_paths(learner, base, requests, tolerance))
    # that an estimator which the run does not use is off is worth knowing, and nothing wrong with the run
    judged = [path for path in paths if path.is_fast or path.estimator == base.estimator]
    is_ok = all(path.agreement is not Agreement.DIVERGED for path in judged)
    own = next(path for path in paths if path.estimator == base.estimator and path.is_fast == base.fast_path)
    data: dict[str, JSON] = {
        "perturbation": base.perturbation,
        "num_directions": base.num_directions,
        "own": own.name,
        "num_tasks": len(requests),
        "tolerance": tolerance,
        "is_trained": tensors is not None,
        "backprop_bytes": backprop_bytes,
        "paths": [path.to_json() for path in paths],
    }
    weights = "final weights" if tensors is not None else "the untrained model, for the run left no checkpoint"
    notes = [f"Steps are taken from {weights}; back-propagation of the same step needs {backprop_bytes:,} bytes."]
    if config.step.estimator not in ESTIMATORS:
        notes.append(f"The run's own steps are {config.step.estimator}; compared are steps with one random direction.")
    return Analysis("jvp", run, _conclusion(paths, own), (_grid(paths),), data, (_chart(paths),), is_ok, tuple(notes))


def _forward_gradient(step: StepConfig) -> StepConfig:
    if step.estimator in ESTIMATORS:
        return step
    return step.model_copy(
        update={"estimator": "central_difference", "perturbation": "random", "num_directions": 1, "fast_path": True}
    )


def _tasks(
    config: Config, learner: Learner, shards: Shards, tensors: dict[str, np.ndarray] | None, num_tasks: int
) -> Iterator[StepRequest]:
    from fluxctl.learn.local_step import StepRequest  # imports torch

    params = learner.initial_params(config.seed) if tensors is None else learner.params_from(tensors)
    num_clients = len(shards.clients)
    for number in range(num_tasks):
        client = number % num_clients
        keyed = stream(config.seed, "analysis-jvp", client=client, iteration=number // num_clients)
        yield StepRequest(params=params, samples=shards.bin_samples(client, number), stream=keyed)


def _conclusion(paths: Sequence[Path], own: Path) -> str:
    fast = [path for path in paths if path.is_fast]
    unlike = [path for path in fast if path.agreement is not Agreement.IDENTICAL]
    if unlike:
        told = " and ".join(f"{path.estimator} {path.agreement.value}" for path in unlike)
        text = f"The fast path does not give the bits of the plain path: {told}"
    else:
        text = "The fast path gives the same bits as the plain path for every estimator"
    plain = next(path for path in paths if path.estimator == own.estimator and not path.is_fast)
    quick = next(path for path in fast if path.estimator == own.estimator)
    text += (
        f"; for {own.estimator} it takes {quick.passes} passes a step instead of {plain.passes} "
        f"({handy_seconds(quick.latency_s)} instead of {handy_seconds(plain.latency_s)} here)"
    )
    others = [path for path in paths if not path.is_fast and path.agreement is not Agreement.REFERENCE]
    told = ", ".join(f"{path.estimator} is {path.agreement.value} (off by {path.worst:.2g})" for path in others)
    return f"{text}; against exact derivatives {told}."


def _grid(paths: Sequence[Path]) -> Grid:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            path.estimator,
            "fast" if path.is_fast else "plain",
            path.passes,
            path.latency_s,
            path.memory_bytes,
            path.agreement.value,
            path.against if path.agreement is not Agreement.REFERENCE else "",
            path.worst,
        )
        for path in paths
    )
    measures = (
        Measure("estimator"),
        Measure("path"),
        Measure("passes", ",.0f"),
        Measure("latency", "s"),
        Measure("memory", "B"),
        Measure("agreement"),
        Measure("against"),
        Measure("worst", ".2g"),
    )
    return Grid("Directional derivatives by estimator and path", measures, rows, 2)


def _chart(paths: Sequence[Path]) -> Chart:
    names = [path.name for path in paths]

    def draw() -> Drawing:
        values = [1e3 * path.latency_s for path in paths]
        return bars(names, {"latency": values}, x="estimator and path", y="milliseconds of a step", stacked=False)

    rows = [(path.name, path.passes, path.latency_s, path.memory_bytes) for path in paths]
    title = f"Latency of a step by estimator and path; {plural(len(paths), 'way')}"
    return Chart("jvp", title, draw, ("path", "passes", "latency_s", "memory_bytes"), rows)
