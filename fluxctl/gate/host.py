"""Finds out what gate checks need to know: the one part of the gate that reads files and looks at the machine.

Nothing is trained and no language model is loaded. What cannot be found out becomes a trouble, which a check reports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from fluxctl.config.choices import choice_check
from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.load import Resolved, load_layer, resolve
from fluxctl.config.model import Config
from fluxctl.config.saved import render
from fluxctl.config.source import Text
from fluxctl.data import cache_folder, find_model, load_corpus, partition
from fluxctl.data.trace_presets import load_trace_spec
from fluxctl.data.traces import read_trace, require_length
from fluxctl.data.worlds import build_world
from fluxctl.errors import AssetError, ConfigError, FluxError, InvariantError
from fluxctl.gate.facts import (
    Case,
    CourseFacts,
    DataFacts,
    DeviceFacts,
    ModelFacts,
    Trouble,
    WorldFacts,
    measured_alpha,
    task_passes,
)
from fluxctl.policies import REGISTRIES
from fluxctl.types import NEVER, NS_PER_S, ns_from_s
from fluxctl.world.availability import Exhaustion
from fluxctl.world.availability.states import is_eligible

F = TypeVar("F")
MAX_CLIENTS: Final = 20_000  # with more, clients are not simulated one by one
NUM_TIMES: Final = 200  # moments of the budget at which reachable clients are counted
# Sources that give exactly the configured number of texts of each class, so that labels are known without the texts.
_FULL_SOURCES: Final = ("synthetic", "wordnet-gloss")
# What the partition and the clients' world depend on; baselines of a run set mostly share it.
_DATA: Final = {"seed", "data", "partition", "clients"}
_WORLD: Final = {"seed", "data", "clients", "availability", "delays", "links", "step", "limits", "engine"}
_COURSE: Final = {*_WORLD, "model", "selection", "gate", "aggregation", "messages"}
_TINY: Final = ModelFacts("bert", num_blocks=2, max_positions=512)


def read_back(resolved: Resolved) -> Config:
    """The configuration as a run will read it: written as ``config.yaml`` and parsed again.

    Raises:
        InvariantError: If it does not come back as it went.
    """
    text = Text(render(resolved), "config.yaml", "config.yaml")
    config = resolve([load_layer(text)], check=choice_check(REGISTRIES)).config
    if config != resolved.config:
        raise InvariantError("config.yaml does not say what was resolved")
    return config


def look_at(
    runs: Sequence[tuple[Resolved, frozenset[str]]],
    *,
    walk: Callable[[Config], CourseFacts] | None = None,
    devices: DeviceFacts | None = None,
) -> list[Case]:
    """Find out everything about runs that the gate checks; what runs have in common is found out once.

    Args:
        runs: What each run is asked to do, and the paths of its values that were set for this launch.
        walk: Walks through a run without training; only asked where clients come and go, and a cycle may close.
        devices: Accelerators, if any were asked for.
    """
    memo: dict[tuple[str, str], object] = {}

    def once(kind: str, sections: set[str], config: Config, find: Callable[[Config], F]) -> F:
        key = (kind, config.model_dump_json(include=sections))
        if key not in memo:
            memo[key] = find(config)
        return memo[key]  # type: ignore[return-value]  # one kind, one type

    cases = []
    for resolved, overridden in runs:
        config = read_back(resolved)
        model = once("model", {"model"}, config, _model)
        data = once("data", _DATA, config, _data)
        world = once("world", _WORLD, config, _world)
        course = None
        if walk is not None and isinstance(world, WorldFacts) and _needs_walk(config, world):
            course = once("course", _COURSE, config, walk)
        cases.append(
            Case(
                config=config,
                prints=fingerprints(config),
                origins=resolved.origins(),
                overridden=overridden,
                num_cores=num_cores(),
                model=None if isinstance(model, Trouble) else model,
                data=None if isinstance(data, Trouble) else data,
                world=None if isinstance(world, Trouble) else world,
                troubles=tuple(item for item in (model, data, world) if isinstance(item, Trouble)),
                short_trace=once("length", _WORLD, config, _short_trace),
                course=course,
                devices=devices,
            )
        )
    return cases


def _needs_walk(config: Config, world: WorldFacts) -> bool:
    """Whether the trace may matter, and is not ruled out already."""
    earliest_s = float(world.first_delivery_s[config.aggregation.goal - 1])
    return not world.is_always and earliest_s <= config.runtime_budget_s()


def _short_trace(config: Config) -> Trouble | None:
    """That a recorded trace ends for good before the run may; what else is wrong with it is told elsewhere."""
    try:
        spec = load_trace_spec(config.availability.trace)
        if spec.path is None or spec.exhaustion is not Exhaustion.STOP:
            return None
        timelines = read_trace(Path(spec.path), exhaustion=spec.exhaustion, horizon_s=spec.horizon_s)
    except FluxError:
        return None
    try:
        require_length(timelines, ns_from_s(config.runtime_budget_s()), config.availability.trace)
    except ConfigError as error:
        return _trouble("availability.trace", error)
    return None


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _trouble(path: str, error: FluxError) -> Trouble:
    message = f"{error.where}: {error.message}" if error.where and error.where != path else error.message
    return Trouble(path, message, error.hint, is_missing=isinstance(error, AssetError))


def _model(config: Config) -> ModelFacts | Trouble:
    try:
        asset = find_model(config.model.name, memo=cache_folder() / "hashes")
    except FluxError as error:
        return _trouble("model.name", error)
    if asset.folder is None:
        return _TINY
    try:
        described = json.loads((asset.folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Trouble("model.name", f"cannot read the model's config.json: {error}")
    described = described if isinstance(described, dict) else {}
    blocks, positions = (
        described.get("num_hidden_layers", described.get("n_layers")),
        described.get("max_position_embeddings"),
    )
    return ModelFacts(
        str(described.get("model_type", "unknown")),
        num_blocks=blocks if isinstance(blocks, int) else None,
        max_positions=positions if isinstance(positions, int) else None,
    )


def _data(config: Config) -> DataFacts | Trouble:
    try:
        labels, num_classes = _labels(config)
        shards = partition(
            labels,
            num_classes,
            config.clients.num_clients,
            config.partition,
            config.seed,
            batch_size=config.data.batch_size,
        )
    except FluxError as error:
        return _trouble("data.source", error)
    return DataFacts(
        num_texts=len(labels),
        quantities=np.array([len(samples) for samples in shards.clients], dtype=np.int64),
        measured_alpha=measured_alpha(shards.class_counts) if config.partition.method == "dirichlet" else None,
    )


def _labels(config: Config) -> tuple[npt.NDArray[np.int64], int]:
    """Labels of the training texts in their order, and how many labels there are."""
    data = config.data
    if data.source in _FULL_SOURCES:
        return np.repeat(np.arange(len(data.classes)), data.train_per_class), len(data.classes)
    corpus = load_corpus(data)
    return corpus.train_labels, len(corpus.classes)


def _world(config: Config) -> WorldFacts | Trouble | None:
    num_clients = config.clients.num_clients
    if num_clients > MAX_CLIENTS:
        return None
    try:
        world = build_world(config)
        passes = task_passes(config)
        durations, deliveries = np.zeros(num_clients), np.full(num_clients, np.inf)
        for client in range(num_clients):
            start = world.trace.next_available(client, 0, world.eligible)
            # messages are charged as empty: what follows from it is a lower bound
            plan = world.plan(client, start or 0, passes, 0, 0)
            durations[client] = plan.duration_ns / NS_PER_S
            if start is not None and plan.delivery_ns < NEVER:
                deliveries[client] = plan.delivery_ns / NS_PER_S
    except FluxError as error:
        return _trouble("availability.trace", error)
    budget = ns_from_s(config.runtime_budget_s())
    times = [budget * step // NUM_TIMES for step in range(NUM_TIMES)] if not world.always_available else [0]
    counts = [int(np.count_nonzero(is_eligible(world.trace.states(num_clients, t), world.eligible))) for t in times]
    return WorldFacts(
        task_s=np.sort(durations),
        first_delivery_s=np.sort(deliveries),
        reachable=np.array(counts, dtype=np.int64),
        is_always=world.always_available,
    )
