"""Every estimator against reverse-mode autograd through the whole, uncached model."""

from __future__ import annotations

import pytest
import torch

from fluxctl.learn.forward_grad import ESTIMATORS, passes_for
from fluxctl.learn.points import Points
from fluxctl.learn.tangents import draw_directions
from fluxctl.world.seeds import stream

SAMPLES = tuple(range(8))
#: Error of the derivative relative to |v||grad|: O(h) for forward differences, O(h^2) and rounding for central ones.
TOLERANCE = {"central_difference": 2e-3, "forward_difference": 2e-2, "jvp": 2e-6}


def derivatives(lab, name: str, directions: torch.Tensor):
    batch = lab.suffix.batch(*lab.features.gather(SAMPLES))
    basis = torch.cat([lab.params().unsqueeze(0), directions])
    return ESTIMATORS[name](lambda points: lab.suffix.losses(points, batch), basis, 0.01)


@pytest.mark.feature("B11")
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_derivatives_equal_the_gradient_along_the_directions(lab, name: str) -> None:
    directions = draw_directions(lab.suffix.layout.num_params, 6, stream(1, "test"))
    gradient = lab.gradient(lab.params(), SAMPLES)
    found = derivatives(lab, name, directions)
    expected = directions @ gradient
    scale = float(gradient.norm() * directions.norm(dim=1).mean())
    error = (torch.tensor(found.jvps) - expected).abs().max()
    assert error < TOLERANCE[name] * scale
    assert expected.abs().max() > 10 * TOLERANCE[name] * scale or name == "forward_difference"


@pytest.mark.feature("B11")
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_losses_at_theta(lab, name: str) -> None:
    directions = draw_directions(lab.suffix.layout.num_params, 10, stream(1, "test"))
    found = derivatives(lab, name, directions)
    batch = lab.suffix.batch(*lab.features.gather(SAMPLES))
    expected = lab.suffix.losses(Points(lab.params().unsqueeze(0)), batch)[0]
    assert found.sample_losses == pytest.approx(expected.tolist(), rel=0.03 if name == "central_difference" else 1e-5)


@pytest.mark.feature("B11")
def test_average_of_many_directions_points_along_the_gradient(labs) -> None:
    lab = labs("head")
    learner = lab.learner(perturbation="average", num_directions=2000)
    gradient = lab.gradient(lab.params(), SAMPLES)
    estimate = learner.step(lab.request()).gradient
    # With P directions in d dimensions the expected cosine is sqrt(P / (P + d + 1)), here 0.97.
    assert torch.cosine_similarity(estimate, gradient, dim=0) > 0.95
    assert estimate.norm() == pytest.approx(float(gradient.norm()), rel=0.1)


def test_pass_counts() -> None:
    assert [passes_for(name, 10) for name in ("central_difference", "forward_difference", "jvp")] == [20, 11, 20]


@pytest.mark.feature("B11")
def test_central_difference_is_exact_on_a_quadratic() -> None:
    """By hand: f = a theta^2 per text; the derivative along v is 2 a theta v."""
    weights = torch.tensor([1.0, 3.0])

    def losses_at(points: Points) -> torch.Tensor:
        return points.expanded().square() * weights  # one parameter, two texts

    basis = torch.tensor([[2.0], [1.0], [-0.5]])
    found = ESTIMATORS["central_difference"](losses_at, basis, 0.125)
    assert found.jvps == (8.0, -4.0)  # mean of 2 * 1 * 2 and 2 * 3 * 2, then times v
    forward = ESTIMATORS["forward_difference"](losses_at, basis, 0.125)
    assert forward.jvps == (8.25, -3.9375)  # plus h * a v^2
    assert forward.sample_losses == (4.0, 12.0)
    assert ESTIMATORS["jvp"](losses_at, basis, 0.125).jvps == (8.0, -4.0)
