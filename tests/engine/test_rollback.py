"""After a divergence a run may go on from its best model, more carefully."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fluxctl.config.model import Config
from fluxctl.engine.messages import Train
from fluxctl.engine.payload import decode, encode
from fluxctl.engine.trainer import StepOutput
from fluxctl.types import Verdict

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
ROLLBACK: dict[str, Any] = {
    "limits__divergence_guard": True,
    "gate__enabled": False,
    "server__on_divergence": "rollback",
    "server__lr": 0.02,
    "limits__max_bins": 10,
}


class NanAt:
    """Updates of some versions are not numbers, whoever computes them."""

    def __init__(self, inner: Any, *versions: int) -> None:
        self._inner, self._versions = inner, versions

    def receive(self, task: Train) -> None:
        self._inner.receive(task)

    def step(self, task: Train) -> StepOutput:
        output: StepOutput = self._inner.step(task)
        if task.version not in self._versions:
            return output
        payload = decode(output.payload)
        return replace(output, payload=encode(replace(payload, vectors=(np.full_like(payload.vectors[0], np.nan),))))


@pytest.mark.feature("B16")
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adagrad", "yogi"])
def test_the_best_model_comes_back(
    run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, optimizer: str
) -> None:
    """The updates of version 4 make version 5, which has diverged before anybody was sent it."""
    config = config_of(**ROLLBACK, server__optimizer=optimizer)
    run = run_engine(config, workload=NanAt(null_workload(), 4))
    assert run.stop.verdict is Verdict.COMPLETED
    [event] = run.of("rollback")
    assert (event["num_rollbacks"], event["lr"], event["version"]) == (1, 0.01, 5)
    assert "finite" in event["reason"]
    evaluations = run.of("agg_eval")
    assert len(evaluations) == 11
    assert evaluations[5]["test_accuracy"] == max(e["test_accuracy"] for e in evaluations[:5])
    assert not any("weights_finite" in e for e in evaluations)  # what was seen is told by the rollback
    assert torch.isfinite(run.engine.bin_trainer.params).all()
    assert run.engine.recorder.totals.rollbacks == 1


@pytest.mark.feature("B16")
def test_the_optimizer_forgets_what_it_learned_since(
    run_engine: RunEngine, config_of: ConfigOf, null_workload: Any
) -> None:
    """A velocity that is not a number would spoil every later step."""
    config = config_of(**ROLLBACK, server__optimizer="momentum")
    run = run_engine(config, workload=NanAt(null_workload(), 4))
    arrays, _ = run.engine.bin_trainer._optimizer.state()
    assert arrays
    assert all(torch.isfinite(array).all() for array in arrays.values())


@pytest.mark.feature("B16")
def test_rollbacks_are_limited(run_engine: RunEngine, config_of: ConfigOf, null_workload: Any) -> None:
    config = config_of(**ROLLBACK, server__max_rollbacks=2, server__rollback_lr_factor=0.1)
    run = run_engine(config, workload=NanAt(null_workload(), *range(3, 100)))
    assert run.stop.verdict is Verdict.DIVERGED
    assert [e["lr"] for e in run.of("rollback")] == pytest.approx([2e-3, 2e-4])
    assert run.of("agg_eval")[-1]["weights_finite"] is False
    assert run.stop.reason.endswith(", after 2 rollbacks")
    assert run.of("agg_round")[-1]["stop_reason"] == run.stop.reason


@pytest.mark.feature("B16", "A1")
@pytest.mark.wall
def test_both_clocks_roll_back_alike(run_engine: RunEngine, config_of: ConfigOf, null_workload: Any) -> None:
    modes: tuple[dict[str, Any], ...] = ({"mode": "real", "engine__wall_factor": 200.0}, {})
    real, sim = (run_engine(config_of(**ROLLBACK, **mode), workload=NanAt(null_workload(), 4)) for mode in modes)
    assert len(sim.of("rollback")) == 1
    assert real.hash == sim.hash


@pytest.mark.feature("B16")
def test_without_a_divergence_it_is_as_if_it_did_not_exist(run_engine: RunEngine, config_of: ConfigOf) -> None:
    stopping = {**ROLLBACK, "server__on_divergence": "stop"}
    assert run_engine(config_of(**ROLLBACK)).hash == run_engine(config_of(**stopping)).hash


@pytest.mark.feature("B16")
def test_it_needs_the_guard(config_of: ConfigOf) -> None:
    with pytest.raises(ValueError, match=r"needs limits\.divergence_guard"):
        config_of(server__on_divergence="rollback")
