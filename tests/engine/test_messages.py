"""Compact messages inside whole runs: the same learning, fewer bytes; and what cannot be sent is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.config.model import Config, MessagesConfig
from fluxctl.engine import opening, sending
from fluxctl.engine.prepare import Task, prepare_task
from fluxctl.engine.workload import ClientWorkload
from fluxctl.world.seeds import Stream

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
TINY: dict[str, Any] = {
    "model__name": "tiny",
    "model__adapter_dim": 4,
    "data__source": "synthetic",
    "data__train_per_class": 40,
    "data__test_per_class": 10,
    "clients__num_clients": 10,
    "aggregation__style": "async",
    "aggregation__staleness__name": "downweight",
    "aggregation__goal": 3,
    "aggregation__concurrency": 6,
    "limits__max_bins": 6,
}
STEPS: dict[str, dict[str, Any]] = {
    "random": {},
    "max_jvp": {"step__perturbation": "max_jvp", "step__num_directions": 4},
    "average": {"step__perturbation": "average", "step__num_directions": 4},
    "orthogonal": {"step__perturbation": "orthogonal", "step__num_directions": 4},
    "jvp": {"step__estimator": "jvp", "step__perturbation": "max_jvp", "step__num_directions": 3},
}


@pytest.fixture(scope="module")
def task_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Config], Task]:
    folder = tmp_path_factory.mktemp("cache")

    def prepare(config: Config) -> Task:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLUXCTL_CACHE_DIR", str(folder))
            return prepare_task(config, lambda *_: None)

    return prepare


@pytest.fixture
def run_with(run_engine: RunEngine, config_of: ConfigOf, task_of: Callable[[Config], Task]) -> Callable[..., Any]:
    def run(**overrides: Any) -> Any:
        config = config_of(**{**TINY, **overrides})
        task = task_of(config)
        workload = ClientWorkload(task.learner, task.shards, config.seed, step=config.step, messages=config.messages)
        done = run_engine(config, learner=task.learner, shards=task.shards, workload=workload)
        assert done.error is None
        return done

    return run


@pytest.mark.feature("B22", "B12")
@pytest.mark.parametrize("name", STEPS)
def test_described_updates_teach_the_same(run_with: Callable[..., Any], name: str) -> None:
    whole = run_with(**STEPS[name])
    described = run_with(**STEPS[name], messages__update="seed_scalar")
    assert described.commits == whole.commits
    assert [e["var"] for e in described.of("agg_round")] == [e["var"] for e in whole.of("agg_round")]
    sizes = {e["bytes"] for e in described.of("comm") if e["direction"] == "up"}
    num = 4 if name in ("average", "orthogonal") else 1
    assert sizes == {40 + 24 + 12 * num + 24}
    assert {e["payload"] for e in described.of("comm") if e["direction"] == "up"} == {"seed_scalar"}
    checksums = [e["rebuilt_checksum"] for e in described.of("trainer_round")]
    assert len(set(checksums)) == len(checksums) > 0
    assert not any("rebuilt_checksum" in e for e in whole.of("trainer_round"))


@pytest.mark.feature("B22")
def test_a_device_that_draws_other_numbers_is_found_out(
    run_engine: RunEngine, config_of: ConfigOf, task_of: Callable[[Config], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(**TINY, messages__update="seed_scalar")
    task = task_of(config)
    monkeypatch.setattr(opening, "Stream", lambda key: Stream((key[0] ^ 1, key[1])))
    workload = ClientWorkload(task.learner, task.shards, config.seed, step=config.step, messages=config.messages)
    run = run_engine(config, learner=task.learner, shards=task.shards, workload=workload)
    assert "not what its client computed" in str(run.error)


@pytest.mark.feature("B5", "B22")
@pytest.mark.parametrize("style", ["async", "sync"])
def test_deltas_teach_the_same(run_with: Callable[..., Any], style: str) -> None:
    overrides = {"aggregation__style": style, "limits__max_bins": 10, "server__lr": 1e-6}  # weights hardly change
    full = run_with(**overrides)
    delta = run_with(**overrides, messages__weights="delta")
    assert delta.commits == full.commits
    kinds = [e["payload"] for e in delta.of("comm") if e["direction"] == "down"]
    assert {"weights", "delta"} <= set(kinds)
    assert kinds.count("weights") <= 10 < kinds.count("delta")  # one for each client, deltas from then on
    assert delta.engine.recorder.totals.bytes_down < full.engine.recorder.totals.bytes_down


@pytest.mark.feature("B5")
def test_a_delta_that_saves_nothing_is_not_sent(run_with: Callable[..., Any]) -> None:
    """After a step that changes every bit of every weight, the whole is shorter."""
    overrides = {"server__lr": 10.0}
    full, delta = run_with(**overrides), run_with(**overrides, messages__weights="delta")
    assert delta.commits == full.commits
    assert delta.engine.recorder.totals.bytes_down <= full.engine.recorder.totals.bytes_down


@pytest.mark.feature("B5")
def test_a_version_that_is_too_old_is_replaced_whole(
    run_with: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "KEPT_VERSIONS", 1)
    run = run_with(messages__weights="delta")
    kinds = [e["payload"] for e in run.of("comm") if e["direction"] == "down"]
    assert kinds.count("delta") == 0


@pytest.mark.feature("B22", "A36")
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"messages__weights": "delta", "messages__suppress_redundant_weights": False}, "needs suppress_redundant"),
        ({"messages__weights": "delta", "step__perturbation": "cosine_guided"}, "last aggregate"),
        ({"messages__update": "seed_scalar", "step__perturbation": "cosine_guided"}, "choose random, max_jvp"),
        ({"messages__update": "seed_scalar", "step__estimator": "local_sgd"}, "send the gradient"),
        ({"messages__update": "seed_scalar", "step__estimator": "backprop"}, "send the gradient"),
    ],
)
def test_what_makes_no_sense_is_refused(config_of: ConfigOf, overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config_of(**overrides)


def test_off_is_the_default() -> None:
    assert MessagesConfig() == MessagesConfig(suppress_redundant_weights=True, weights="full", update="gradient")
