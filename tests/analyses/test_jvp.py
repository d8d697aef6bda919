"""Estimators and paths on a real small model."""

import dataclasses

import numpy as np
import pytest
from safetensors.numpy import load_file

from fluxctl.analyses.fairness import client_accuracies
from fluxctl.analyses.jvp import jvp
from fluxctl.analyses.jvp_paths import Agreement
from fluxctl.config.load import read_config
from fluxctl.engine.prepare import prepare_task
from fluxctl.runs.index import list_runs


@pytest.fixture(scope="module")
def prepared(recorded_runs, tmp_path_factory):
    info = list_runs(recorded_runs)[0]
    config = read_config(info.folder.config).config
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLUXCTL_CACHE_DIR", str(recorded_runs.parent / "cache"))
        task = prepare_task(config, lambda *_: None)
    return config, task, load_file(info.folder.path / "checkpoints" / "final.safetensors")


def paths_of(analysis):
    return {(path["estimator"], path["is_fast"]): path for path in analysis.data["paths"]}


def test_the_fast_path_gives_the_same_bits_with_fewer_passes(prepared):
    config, task, weights = prepared
    analysis = jvp("run", config, task.learner, task.shards, weights, num_tasks=3)
    paths = paths_of(analysis)
    assert analysis.is_ok
    for estimator, (fast, plain) in {
        "central_difference": (20, 25),  # 2 P; and 3 passes for logs, and the winner's 2 again
        "forward_difference": (11, 16),  # P + 1
        "jvp": (20, 25),  # counted twice each
    }.items():
        assert paths[estimator, True]["agreement"] == "BIT-IDENTICAL"
        assert (paths[estimator, True]["passes"], paths[estimator, False]["passes"]) == (fast, plain)
        assert paths[estimator, True]["memory_bytes"] > 0
    assert paths["jvp", False]["agreement"] == "REFERENCE"
    assert paths["central_difference", False]["agreement"] == "WITHIN-TOL"
    assert "same bits" in analysis.conclusion
    assert len(analysis.charts[0].draw().traces) == 1


def test_an_estimator_out_of_tolerance_diverged_and_counts_if_the_run_uses_it(prepared):
    config, task, weights = prepared
    analysis = jvp("run", config, task.learner, task.shards, weights, num_tasks=2, tolerance=0.0)
    assert paths_of(analysis)["central_difference", False]["agreement"] == "DIVERGED"
    assert not analysis.is_ok
    exact = config.model_copy(update={"step": config.step.model_copy(update={"estimator": "jvp"})})
    assert jvp("run", exact, task.learner, task.shards, weights, num_tasks=2, tolerance=0.0).is_ok


class Tampering:
    """A learner whose fast path is off by a little."""

    def __init__(self, learner, error):
        self._learner = learner
        self._error = error
        self._is_fast = True

    def __getattr__(self, name):
        return getattr(self._learner, name)

    def with_step(self, step):
        made = Tampering(self._learner.with_step(step), self._error)
        made._is_fast = step.fast_path
        return made

    def step(self, request):
        result = self._learner.step(request)
        return dataclasses.replace(result, gradient=result.gradient * (1 + self._error)) if self._is_fast else result


@pytest.mark.parametrize(("error", "agreement"), [(1e-3, Agreement.WITHIN), (1.0, Agreement.DIVERGED)])
def test_a_fast_path_that_changes_the_result_is_found(prepared, error, agreement):
    config, task, weights = prepared
    analysis = jvp("run", config, Tampering(task.learner, error), task.shards, weights, num_tasks=2)
    assert paths_of(analysis)["central_difference", True]["agreement"] == agreement
    assert analysis.is_ok == (agreement is not Agreement.DIVERGED)
    assert "does not give the bits of the plain path" in analysis.conclusion


def test_a_control_with_back_propagation_is_compared_with_one_direction(prepared):
    config, task, _ = prepared
    step = config.step.model_copy(update={"estimator": "backprop", "perturbation": "random", "num_directions": 1})
    control = config.model_copy(update={"step": step})
    analysis = jvp("run", control, task.learner, task.shards, None, num_tasks=2)
    assert analysis.data["num_directions"] == 1
    assert "untrained model" in analysis.notes[0]
    assert "the run's own steps are backprop" in analysis.notes[1].lower()


def test_client_accuracies_average_to_the_accuracy_on_all_texts(prepared):
    _, task, weights = prepared
    accuracies = client_accuracies(task.learner, task.shards, weights)
    sizes = np.array([len(samples) for samples in task.shards.clients])
    params = task.learner.params_from(weights)
    everything = task.learner.evaluate_on(params, range(sizes.sum()))
    assert accuracies @ sizes / sizes.sum() == pytest.approx(everything.accuracy)
    assert everything.num_samples == sizes.sum()


def test_weights_of_another_model_are_refused(prepared):
    _, task, weights = prepared
    with pytest.raises(ValueError, match="not those of this model"):
        task.learner.params_from({**weights, "more": np.zeros(3, np.float32)})
