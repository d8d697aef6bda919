"""Steps and evaluations through the learner's own interface."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from fluxctl.config.model import StepConfig
from fluxctl.learn.learner import passes_per_step
from fluxctl.learn.tangents import draw_directions, guided_direction

ALL_STEPS = [
    {"perturbation": "random"},
    {"perturbation": "max_jvp", "num_directions": 10},
    {"perturbation": "average", "num_directions": 4},
    {"perturbation": "cosine_guided"},
]


def same(left, right) -> bool:
    """Equal in every bit that a run uses."""
    return torch.equal(left.gradient, right.gradient) and (left.jvps, left.winner, left.loss, left.stat_utility) == (
        right.jvps,
        right.winner,
        right.loss,
        right.stat_utility,
    )


def directions(lab, request, num: int) -> torch.Tensor:
    return draw_directions(lab.suffix.layout.num_params, num, request.stream)


@pytest.mark.feature("B12")
def test_random_is_jvp_times_draw_zero(lab) -> None:
    request = lab.request()
    result = lab.learner().step(request)
    assert torch.equal(result.gradient, directions(lab, request, 1)[0] * result.jvps[0])
    assert (result.forward_passes, result.num_directions, result.num_samples, result.winner) == (2, 1, 8, 0)


@pytest.mark.feature("B12")
def test_max_jvp_keeps_the_steepest_direction(lab) -> None:
    request = lab.request()
    result = lab.learner(perturbation="max_jvp", num_directions=10).step(request)
    sizes = [abs(value) for value in result.jvps]
    assert len(sizes) == 10
    assert sizes[result.winner] == max(sizes)
    assert torch.equal(result.gradient, directions(lab, request, 10)[result.winner] * result.jvps[result.winner])
    assert result.forward_passes == 20


@pytest.mark.feature("B12")
def test_average_is_the_mean_of_the_estimates(lab) -> None:
    request = lab.request()
    result = lab.learner(perturbation="average", num_directions=4).step(request)
    each = torch.stack([row * value for row, value in zip(directions(lab, request, 4), result.jvps, strict=True)])
    torch.testing.assert_close(result.gradient, each.mean(dim=0))


@pytest.mark.feature("B12")
def test_cosine_guided_follows_its_guide(lab) -> None:
    guide = lab.gradient(lab.params(), (0, 1, 2))
    request = lab.request(guide=guide)
    result = lab.learner(perturbation="cosine_guided", num_candidates=10).step(request)
    expected = guided_direction(directions(lab, request, 10), guide, lab.suffix.layout)
    assert torch.equal(result.gradient, expected * result.jvps[0])
    assert result.forward_passes == 2


@pytest.mark.feature("B12")
def test_cosine_guided_without_a_guide_is_random(lab) -> None:
    request = lab.request()
    assert same(lab.learner(perturbation="cosine_guided").step(request), lab.learner().step(request))


@pytest.mark.feature("B6")
@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step["perturbation"])
def test_fast_path_changes_no_bit(lab, step) -> None:
    request = lab.request(guide=lab.params(1.0))
    fast = lab.learner(**step, fast_path=True).step(request)
    slow = lab.learner(**step, fast_path=False).step(request)
    assert same(fast, slow)
    assert slow.forward_passes > fast.forward_passes
    assert fast.base_loss is None
    assert slow.base_loss == pytest.approx(slow.loss, rel=0.05)


@pytest.mark.feature("B6")
def test_passes_are_those_of_the_older_scripts() -> None:
    def passes(**step) -> int:
        return passes_per_step(StepConfig.model_validate(step))

    assert [passes(perturbation="max_jvp", num_directions=10, fast_path=fast) for fast in (False, True)] == [25, 20]
    assert [passes(fast_path=fast) for fast in (False, True)] == [5, 2]
    assert passes(estimator="forward_difference", perturbation="average", num_directions=10) == 11


@pytest.mark.feature("B11")
@pytest.mark.parametrize("estimator", ["central_difference", "forward_difference", "jvp"])
def test_utility_and_loss_come_from_the_passes_made(lab, estimator: str) -> None:
    request = lab.request()
    result = lab.learner(estimator=estimator).step(request)
    batch = lab.suffix.batch(*lab.features.gather(request.samples))
    losses = torch.nn.functional.cross_entropy(
        lab.suffix(request.params.unsqueeze(0), batch)[0], batch.labels, reduction="none"
    ).double()
    tolerance = 0.05 if estimator == "central_difference" else 1e-5
    assert result.loss == pytest.approx(float(losses.mean()), rel=tolerance)
    assert result.stat_utility == pytest.approx(8 * math.sqrt(float(losses.square().mean())), rel=tolerance)


@pytest.mark.parametrize("estimator", ["central_difference", "forward_difference", "jvp"])
def test_threads_do_not_disturb_each_other(lab, estimator: str) -> None:
    learner = lab.learner(estimator=estimator, perturbation="max_jvp", num_directions=3)
    requests = [lab.request(client=client, samples=tuple(range(client, client + 5))) for client in range(16)]
    expected = [learner.step(request) for request in requests]
    shared = lab.learner(estimator=estimator, perturbation="max_jvp", num_directions=3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(shared.step, requests * 2))
    assert all(same(left, right) for left, right in zip(found, expected * 2, strict=True))


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step["perturbation"])
@pytest.mark.parametrize("estimator", ["central_difference", "forward_difference", "jvp"])
def test_divergence_is_a_value_not_an_error(lab, step, estimator: str) -> None:
    learner = lab.learner(**step, estimator=estimator)
    for bad in (float("nan"), float("inf"), 1e38):
        request = lab.request()
        request = replace(request, params=torch.full_like(request.params, bad))
        result = learner.step(request)
        assert not all(map(math.isfinite, result.jvps))
        assert not torch.isfinite(result.gradient).all()


def test_a_mixed_batch_of_derivatives_shows_its_divergence() -> None:
    from fluxctl.learn.local_step import _winner

    assert _winner([1.0, -3.0, 3.0]) == 1
    assert _winner([5.0, math.nan, math.inf]) == 1


def misaligned(values: torch.Tensor) -> torch.Tensor:
    """The same values, 4 bytes off a multiple of 64."""
    buffer = torch.empty(len(values) + 16)
    start = 1 + (-buffer.data_ptr() // 4) % 16
    buffer[start : start + len(values)] = values
    assert buffer[start:].data_ptr() % 64 == 4
    return buffer[start : start + len(values)]


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step["perturbation"])
def test_where_a_vector_lies_in_memory_changes_no_bit(lab, step) -> None:
    learner = lab.learner(**step)
    request = lab.request(guide=lab.params(1.0))
    moved = replace(request, params=misaligned(request.params), guide=misaligned(lab.params(1.0)))
    assert same(learner.step(request), learner.step(moved))
    assert learner.evaluate(request.params) == learner.evaluate(moved.params)


def test_results_can_be_used_outside_inference_mode(lab) -> None:
    result = lab.learner().step(lab.request())
    result.gradient.add_(1.0)
    assert not result.gradient.is_inference()


@pytest.mark.feature("B14")
def test_initial_parameters(lab) -> None:
    learner = lab.learner()
    first, again, other = learner.initial_params(0), learner.initial_params(0), learner.initial_params(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    parts = learner.layout.unflatten(first)
    for name, part in parts.items():
        if name.endswith((".bias", ".up.weight")):
            assert not part.any()
        else:
            assert part.std() == pytest.approx(0.02, rel=0.3)


@pytest.mark.feature("B14")
def test_adapters_start_as_the_identity(labs) -> None:
    plain, adapted = labs("head"), labs("both")
    theta, bare = adapted.learner().initial_params(0), plain.learner().initial_params(0)
    head = adapted.suffix.layout.tensor("head.weight").offset
    bare[:] = theta[head:]
    chosen = slice(0, 8)
    expected = plain.encoder.logits(bare.unsqueeze(0), plain.token_ids[chosen], plain.lengths[chosen])
    found = adapted.encoder.logits(theta.unsqueeze(0), adapted.token_ids[chosen], adapted.lengths[chosen])
    assert torch.equal(found, expected)


@pytest.mark.feature("B6")
def test_frozen_values_are_never_perturbed(lab) -> None:
    """Only the trainable vector is perturbed: the suffix's tensors are the same after a step."""
    before = {name: tensor.clone() for name, tensor in lab.suffix.state()[0].items()}
    lab.learner(perturbation="max_jvp", num_directions=10).step(lab.request())
    assert all(torch.equal(tensor, before[name]) for name, tensor in lab.suffix.state()[0].items())


@pytest.mark.feature("B11")
def test_descending_along_the_estimates_learns(labs) -> None:
    lab = labs("last")
    learner = lab.learner(perturbation="average", num_directions=20)
    params = learner.initial_params(0)
    before = learner.evaluate(params)
    for client in range(40):
        request = replace(lab.request(client=client, samples=tuple(range(40))), params=params)
        params = params - 0.05 * learner.step(request).gradient
    after = learner.evaluate(params)
    assert after.loss < before.loss - 0.1
    assert after.accuracy > before.accuracy


def test_importing_the_learner_does_not_import_transformers() -> None:
    import subprocess

    code = "import sys, fluxctl.learn.learner, fluxctl.learn.split; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
