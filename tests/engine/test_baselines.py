"""The three systems of the study on a tiny model: one hash for ten runs, and one for both clocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fluxctl.config.model import Config
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.learn.local_step import passes_per_step
from fluxctl.telemetry.events import missing_fields
from fluxctl.types import Verdict

TINY: dict[str, Any] = {
    "model__name": "tiny",
    "data__source": "synthetic",
    "data__train_per_class": 40,
    "data__test_per_class": 10,
    "clients__num_clients": 10,
    "delays__low_s": 0.02,
    "delays__high_s": 0.1,
    "limits__max_bins": 3,
}
SYNC: dict[str, Any] = {
    "aggregation__goal": 4,
    "aggregation__concurrency": 4,
    "step__perturbation": "cosine_guided",
    "gate__stopping_policy": "off",
    "gate__var_threshold": 1.0,  # so that natural-only bins stay short
    "gate__max_iterations_per_bin": None,
}
BASELINES: dict[str, dict[str, Any]] = {
    "fwdllm": {**SYNC, "selection__per": "bin"},
    "fwdllm_plus": {**SYNC, "aggregation__staleness__name": "round_bin"},
    "fluxtune": {
        "aggregation__style": "async",
        "aggregation__goal": 3,
        "aggregation__concurrency": 6,
        "aggregation__rate__name": "grad_aware",
        "aggregation__staleness__name": "downweight",
        "selection__policy__name": "async_oort",
        "step__perturbation": "max_jvp",
        "step__num_directions": 5,
        "gate__stopping_policy": "plateau",
        "gate__max_iterations_per_bin": 5,
    },
}
PARTS: dict[str, dict[str, Any]] = {"head": {"model__adapter_blocks": []}, "adapter": {"model__adapter_dim": 4}}
EACH = pytest.mark.parametrize("baseline", BASELINES)


@pytest.fixture(scope="module")
def task_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Config], Task]:
    """Prepared data and model; the feature cache is private to this module."""

    @cache
    def prepare(text: str) -> Task:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLUXCTL_CACHE_DIR", str(folder))
            return prepare_task(Config.model_validate_json(text), lambda *_: None)

    folder: Path = tmp_path_factory.mktemp("features")
    return lambda config: prepare(config.model_dump_json())


@pytest.fixture
def run_baseline(
    run_engine: Callable[..., Any], config_of: Callable[..., Config], task_of: Callable[[Config], Task]
) -> Callable[..., Any]:
    def run(baseline: str, part: str, *, num_workers: int | None = None, **overrides: Any) -> Any:
        config = config_of(**{**TINY, **BASELINES[baseline], **PARTS[part], **overrides})
        task = task_of(config)
        result = run_engine(
            config,
            learner=task.learner,
            shards=task.shards,
            workload=_workload(task, config),
            num_workers=num_workers,
        )
        assert result.error is None
        assert result.stop.verdict is Verdict.COMPLETED
        return result

    return run


def _workload(task: Task, config: Config) -> Any:
    from fluxctl.engine.workload import ClientWorkload

    return ClientWorkload(task.learner, task.shards, config.seed)


@pytest.mark.feature("A1", "A18")
@EACH
@pytest.mark.parametrize("part", PARTS)
def test_ten_simulations_have_one_hash(run_baseline: Callable[..., Any], baseline: str, part: str) -> None:
    assert len({run_baseline(baseline, part, num_workers=1 + number % 3).hash for number in range(10)}) == 1


@pytest.mark.feature("A1", "A9", "A18", "B1", "B2")
@pytest.mark.wall
@EACH
@pytest.mark.parametrize("part", PARTS)
def test_a_real_run_and_its_simulation_have_one_hash(
    run_baseline: Callable[..., Any], baseline: str, part: str
) -> None:
    """Same cohorts, cadence, variances and weights to the end, because all of them are in the hashed events."""
    sim, real = (run_baseline(baseline, part, mode=mode) for mode in ("sim", "real"))
    assert real.commits == sim.commits
    assert [event["var"] for event in real.of("agg_round")] == [event["var"] for event in sim.of("agg_round")]
    assert real.hash == sim.hash


@EACH
def test_selection_follows_the_baseline(run_baseline: Callable[..., Any], baseline: str) -> None:
    run = run_baseline(baseline, "head", gate__var_threshold=1e-9, gate__stopping_policy="fixed_cap",
                       gate__max_iterations_per_bin=3)  # fmt: skip
    cohorts: dict[tuple[int, int], list[int]] = {}
    for event in run.of("selection"):
        cohorts.setdefault((event["round"], event["bin"]), []).append(event["decision_fingerprint"])
    if baseline == "fwdllm":  # once per bin: the cohort is kept over its iterations
        assert all(len(set(prints)) == 1 and len(prints) == 3 for prints in cohorts.values())
        assert [event["kept"] for event in run.of("selection")] == [False, True, True] * 3
    else:
        assert all(len(set(prints)) > 1 for prints in cohorts.values())


@pytest.mark.feature("B2")
@EACH
def test_passes_and_commit_reasons(run_baseline: Callable[..., Any], baseline: str) -> None:
    run = run_baseline(baseline, "adapter")
    passes = passes_per_step(run.engine.aggregator._config.step)
    assert {event["forward_passes"] for event in run.of("trainer_round")} == {passes}
    reasons = [event["commit_reason"] for event in run.of("agg_round") if event["commit_reason"]]
    assert len(reasons) == 3
    assert set(reasons) <= {"natural", "plateau", "cap"}
    for event in run.of("agg_round"):
        assert event["var_good"] == (event["var"] is not None and event["var"] <= event["var_threshold"])
        assert (event["commit_reason"] == "natural") == event["var_good"]


@pytest.mark.feature("B2")
def test_each_reason_to_commit(run_baseline: Callable[..., Any]) -> None:
    strict = {"gate__var_threshold": 1e-12}

    def reasons(**gate: Any) -> set[str | None]:
        run = run_baseline("fluxtune", "head", **gate)
        return {event["commit_reason"] for event in run.of("agg_round")}

    assert reasons(gate__var_threshold=1e9) == {"natural"}
    assert reasons(**strict, gate__stopping_policy="fixed_cap", gate__max_iterations_per_bin=2) == {None, "cap"}
    plateau = {"gate__stopping_policy": "plateau", "gate__max_iterations_per_bin": None}
    assert reasons(**strict, **plateau, gate__plateau_min_drop=0.9) >= {None, "plateau"}


@pytest.mark.feature("C2", "C3", "C4", "C5", "C7", "C9", "C11", "C16")
@EACH
def test_every_event_carries_its_fields(run_baseline: Callable[..., Any], baseline: str) -> None:
    run = run_baseline(baseline, "head")
    kinds = {event["event"] for event in run.events}
    client_events = {"dispatch", "task_recv", "trainer_round", "task_send", "comm"}
    beliefs = {"utility_belief"} if baseline == "fluxtune" else set()
    assert kinds == client_events | beliefs | {"selection", "agg_round", "agg_eval", "residence"}
    assert [(event["event"], missing) for event in run.events if (missing := missing_fields(event))] == []
    assert [event["t_ns"] for event in run.events] == sorted(event["t_ns"] for event in run.events)
    assert len(run.of("agg_eval")) == 1 + 3  # the untrained model, and once per commit
