"""Runs of the tiny model, whole and mutated, as the ladder sees them; on the virtual clock, a few on the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fluxctl.policies  # noqa: F401 - registers every policy
from fluxctl.config.model import Config
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.run import build_engine
from fluxctl.parity.observed import Observed, observe_events
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import Mode

# Dotted keys with __ for the dot. Bins end after a fixed number of iterations and selection looks at no result, so that
# a mutation shows in what it touches and not in everything that follows from another model.
COMMON: Mapping[str, Any] = {
    "model__name": "tiny",
    "data__source": "synthetic",
    "data__train_per_class": 60,
    "data__test_per_class": 10,
    "clients__num_clients": 12,
    "delays__model": "uniform",
    "delays__low_s": 1.0,
    "delays__high_s": 10.0,
    "selection__policy__name": "random",
    "gate__stopping_policy": "fixed_cap",
    "gate__max_iterations_per_bin": 2,
    "gate__var_threshold": 1e-6,
    "server__lr": 1e-4,
    "limits__max_bins": 90,
    "limits__max_runtime_s": 1e5,
    "limits__divergence_guard": False,
    "engine__num_workers": 0,
}
WORLDS: Mapping[str, Mapping[str, Any]] = {
    "async": {  # K of C in flight, the others carry over; transfers take time
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "aggregation__rate__name": "grad_aware",
        "links__model": "constant",
        "links__down_bytes_per_s": 20_000.0,
        "links__up_bytes_per_s": 20_000.0,
    },
    "sync": {  # a barrier with one client more than it needs
        "aggregation__goal": 4,
        "aggregation__concurrency": 5,
        "delays__low_s": 1.0,
        "delays__high_s": 3.0,
    },
    "away": {  # clients that come and go unseen, so that silence is what tells
        "clients__num_clients": 24,
        "aggregation__goal": 4,
        "aggregation__concurrency": 5,
        "availability__trace": "syn_50",
        "availability__knowledge": "unaware",
        "delays__low_s": 10.0,
        "delays__high_s": 60.0,
    },
    "guided": {  # the variance ends bins, utilities and durations choose clients, and the model learns
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "selection__policy__name": "async_oort",
        "gate__max_iterations_per_bin": 4,
        "gate__var_threshold": 0.5,
        "step__perturbation": "average",
        "step__num_directions": 4,
        "server__lr": 0.07,
    },
    "picky": {  # utilities and durations choose clients, and nothing else is learned
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "selection__policy__name": "async_oort",
    },
    "controlled": {  # K and C follow the iterations that a bin takes
        "aggregation__style": "async",
        "aggregation__goal": 6,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "aggregation__control__name": "iterations",
    },
    "unattended": {  # clients that come and go unseen, and work on while others commit
        "clients__num_clients": 24,
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "availability__trace": "syn_50",
        "availability__knowledge": "unaware",
        "delays__low_s": 10.0,
        "delays__high_s": 60.0,
    },
    "informed": {  # clients that say when they come and go
        "clients__num_clients": 24,
        "aggregation__goal": 4,
        "aggregation__concurrency": 5,
        "availability__trace": "syn_50",
        "availability__knowledge": "client_notify",
        "delays__low_s": 10.0,
        "delays__high_s": 60.0,
    },
    "scarce": {  # everybody is needed, and who goes away loses the work
        "clients__num_clients": 4,
        "aggregation__goal": 4,
        "aggregation__concurrency": 4,
        "availability__trace": "syn_50",
        "availability__knowledge": "oracular",
        "availability__on_unavailable": "abort",
        "delays__low_s": 10.0,
        "delays__high_s": 80.0,
    },
    "wall": {  # few and long bins, so that what a busy machine adds to them stays small
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 8,
        "aggregation__staleness__name": "downweight",
        "engine__wall_factor": 10.0,
        "limits__max_bins": 5,
    },
}


def world_config(world: str, mode: Mode) -> Config:
    """The configuration of a world."""
    data = Config().model_dump(mode="json")
    for path, value in {**COMMON, **WORLDS[world], "mode": mode.value}.items():
        *parents, leaf = path.split("__")
        section = data
        for parent in parents:
            section = section[parent]
        assert leaf in section, path
        section[leaf] = value
    return Config.model_validate(data)


@dataclass
class Laboratory:
    """Makes runs; what is prepared and what is healthy is made once.

    Args:
        folder: Where runs are written.
    """

    folder: Path
    _tasks: dict[str, Task] = field(default_factory=dict)
    _healthy: dict[str, Observed] = field(default_factory=dict)
    _num_runs: int = 0

    def healthy(self, world: str) -> Observed:
        """The run of a world as it should be."""
        if world not in self._healthy:
            self._healthy[world] = self.run(world, "healthy")
        return self._healthy[world]

    def run(self, world: str, label: str, mode: Mode = Mode.SIM) -> Observed:
        """Run a world to its end with the engine as it is at this moment."""
        config = world_config(world, mode)
        if world not in self._tasks:
            self._tasks[world] = prepare_task(config, lambda *_: None)
        task = self._tasks[world]
        self._num_runs += 1
        folder = self.folder / f"run{self._num_runs}"
        folder.mkdir()
        with EventWriter(folder) as writer:
            writer.header({"run": label, "mode": config.mode.value}, seed=config.seed)
            writer.emit(0, "run_meta", {"config_hash": "", "seed": config.seed}, wall={"identity": {}})
            engine = build_engine(config, task.learner, task.shards, writer)
            stop = engine.run()
            outcome = {"verdict": stop.verdict.value, "reason": stop.reason, "exit_code": 0}
            writer.emit(engine.aggregator.logical_now, "verdict", outcome)
        return observe_events(label, folder / "events.jsonl", config.mode, config, folder)


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.mktemp("mutation")
        patch.setenv("FLUXCTL_CACHE_DIR", str(base / "cache"))
        yield Laboratory(base)


@pytest.fixture
def mutated(laboratory: Laboratory) -> Callable[..., tuple[Observed, Observed]]:
    """Break the engine in one way and run a world: ``mutated(mutate, "async")`` is the healthy and the broken run.

    On the wall clock the broken run is the real one, and so it comes first. The engine is whole again when the ladder
    looks at the runs.
    """

    def run(
        mutate: Callable[[pytest.MonkeyPatch], None], world: str, mode: Mode = Mode.SIM
    ) -> tuple[Observed, Observed]:
        with pytest.MonkeyPatch.context() as patch:
            mutate(patch)
            broken = laboratory.run(world, "mutated", mode)
        healthy = laboratory.healthy(world)
        return (broken, healthy) if mode is Mode.REAL else (healthy, broken)

    return run
