"""The control baselines' local steps: against autograd through the whole model, and against loops by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fluxctl.learn.controls import LocalSgdSettings, backprop, local_sgd

pytestmark = pytest.mark.feature("B11")
SAMPLES = tuple(range(8))


def batch_of(lab):
    return lambda samples: lab.suffix.batch(*lab.features.gather(samples))


def step(lab, request):
    return backprop(request, batch_of(lab)(request.samples), lab.suffix)


def test_backprop_equals_autograd_through_the_whole_model(lab) -> None:
    result = step(lab, lab.request())
    expected = lab.gradient(lab.params(), SAMPLES)
    torch.testing.assert_close(result.gradient, expected, rtol=1e-4, atol=1e-6 * float(expected.norm()))
    assert result.loss == pytest.approx(float(lab.mean_loss(lab.params(), SAMPLES)), rel=1e-5)


def test_a_result_has_the_shape_of_a_forward_gradients(lab) -> None:
    request = lab.request()
    result, forward = step(lab, request), lab.learner().step(request)
    assert (result.gradient.shape, result.gradient.dtype) == (forward.gradient.shape, forward.gradient.dtype)
    assert not result.gradient.requires_grad
    assert result.jvps[result.winner] == pytest.approx(float(result.gradient.norm()))
    assert (result.forward_passes, result.num_directions, result.num_samples) == (3, 0, 8)
    # Utility 8 sqrt(mean of squared losses) is at least 8 times the mean loss; the forward gradient's is nearly it.
    assert result.stat_utility >= 8 * result.loss
    assert result.stat_utility == pytest.approx(forward.stat_utility, rel=0.03)


def test_forward_gradients_average_to_it(labs) -> None:
    """With P directions in d dimensions the expected cosine is sqrt(P / (P + d + 1)): .97 for 2000 in 132."""
    lab = labs("head")
    estimate = lab.learner(perturbation="average", num_directions=2000).step(lab.request()).gradient
    exact = step(lab, lab.request()).gradient
    assert torch.cosine_similarity(estimate, exact, dim=0) > 0.95
    assert estimate.norm() == pytest.approx(float(exact.norm()), rel=0.1)


@pytest.mark.parametrize("without_grad", [False, True])
def test_nothing_is_random_and_nothing_is_changed(labs, without_grad: bool) -> None:
    """No dropout: two steps agree in every bit, whatever gradient mode the calling thread is in."""
    lab = labs("both")
    request = lab.request()
    before = request.params.clone()
    with torch.no_grad() if without_grad else torch.enable_grad():
        first = step(lab, request)
    second = step(lab, lab.request(client=5))  # another stream: not used
    assert torch.equal(first.gradient, second.gradient)
    assert (first.loss, first.stat_utility) == (second.loss, second.stat_utility)
    assert torch.equal(request.params, before)


def test_local_sgd_equals_a_loop_by_hand(labs) -> None:
    """20 texts in batches of 8, 8 and 4, twice, through the whole uncached model."""
    lab = labs("last")
    samples = tuple(range(20))
    result = local_sgd(
        lab.request(samples=samples), batch_of(lab), lab.suffix, LocalSgdSettings(lr=0.5, epochs=2, batch_size=8)
    )
    params, losses = lab.params(), []
    for epoch in range(2):
        for batch in (samples[:8], samples[8:16], samples[16:]):
            if epoch == 0:
                losses += [float(lab.mean_loss(params, (text,))) for text in batch]
            params = params - 0.5 * lab.gradient(params, batch)
    torch.testing.assert_close(result.gradient, lab.params() - params, rtol=1e-3, atol=1e-5)
    assert result.loss == pytest.approx(sum(losses) / 20, rel=1e-4)
    assert result.stat_utility == pytest.approx(20 * (sum(loss**2 for loss in losses) / 20) ** 0.5, rel=1e-4)
    assert (result.forward_passes, result.num_samples, result.num_directions) == (2 * 3 * 3, 20, 0)
    assert result.jvps[result.winner] == pytest.approx(float(result.gradient.norm()))


def test_one_batch_and_one_epoch_is_a_gradient_step(lab) -> None:
    """The pseudo-gradient is then lr times the gradient: a server step of rate 1 on it is the client's own step."""
    once = local_sgd(lab.request(), batch_of(lab), lab.suffix, LocalSgdSettings(lr=0.25))
    torch.testing.assert_close(once.gradient, 0.25 * step(lab, lab.request()).gradient, rtol=1e-3, atol=1e-6)


def test_local_sgd_lowers_the_loss(labs) -> None:
    lab = labs("both")
    request = lab.request()
    result = local_sgd(request, batch_of(lab), lab.suffix, LocalSgdSettings(lr=0.5, epochs=20))
    after = step(lab, replace(request, params=request.params - result.gradient))
    assert after.loss < 0.7 * result.loss


@pytest.mark.parametrize(
    ("num_samples", "epochs", "passes"),
    # Batches of 8: 1, 1, 2 and 3 of them, at three pass equivalents each.
    [(1, 1, 3), (8, 1, 3), (9, 2, 12), (24, 1, 9)],
)
def test_passes_are_known_beforehand(num_samples: int, epochs: int, passes: int) -> None:
    settings = LocalSgdSettings(epochs=epochs, batch_size=8)
    assert settings.num_passes(num_samples) == passes
    batches = settings.batches(tuple(range(num_samples)))
    assert sum(batches, ()) == tuple(range(num_samples))
    assert max(map(len, batches)) <= 8


def test_a_diverged_model_gives_a_result_and_no_error(labs) -> None:
    lab = labs("head")
    request = replace(lab.request(), params=torch.full_like(lab.params(), float("nan")))
    result = step(lab, request)
    assert not result.gradient.isfinite().all()
    assert result.loss != result.loss
