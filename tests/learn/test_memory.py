"""Peak working memory of a step, counted."""

from __future__ import annotations

import gc

import pytest
import torch

from fluxctl.config.model import StepConfig
from fluxctl.learn.memory import peak_bytes, step_memory

pytestmark = pytest.mark.feature("B23")


def test_counts_what_is_alive_at_once() -> None:
    """Floats of 4 bytes. a and b together hold 800; c of 400 comes after b has gone: the peak is 800."""

    def work() -> torch.Tensor:
        a = torch.ones(100)
        b = a * 2
        del b
        return a + 1

    assert peak_bytes(work) == 800


def test_views_and_changes_in_place_take_no_memory() -> None:
    def work() -> None:
        a = torch.zeros(100)
        a.view(10, 10)[2:5].add_(1.0)
        a.t_() if a.dim() == 2 else a.mul_(3.0)

    assert peak_bytes(work) == 400


def test_what_the_work_was_given_is_not_its_own() -> None:
    given = torch.ones(1000)
    assert peak_bytes(lambda: given[:500] * 2.0) == 2000
    assert peak_bytes(lambda: given.add_(1.0)) == 0


def test_back_propagation_keeps_what_it_will_need_again() -> None:
    """exp needs its result: ten of them in a row keep ten vectors. Without a gradient one at a time is alive."""
    leaf = torch.zeros(1000, requires_grad=True)

    def work() -> None:
        x = leaf
        for _ in range(10):
            x = (x * 0.5).exp()

    kept = peak_bytes(work)
    with torch.no_grad():
        forgotten = peak_bytes(work)
    # One product or result is in the making while the other is alive: x, x / 2 and its exp are three vectors at most.
    assert 10 * 4000 <= kept <= 12 * 4000
    assert forgotten <= 3 * 4000


def memory(lab, **step):
    request = lab.request()
    batch = lab.suffix.batch(*lab.features.gather(request.samples))
    return step_memory(request, batch, lab.suffix, StepConfig.model_validate(step))


def test_adapters_in_two_blocks_need_more_memory_with_back_propagation(labs) -> None:
    found = memory(labs("both"))
    assert found.backprop_bytes > 1.2 * found.forward_gradient_bytes
    # The least that both need: the gradient, as long as the parameters.
    assert found.forward_gradient_bytes > 4 * labs("both").suffix.layout.num_params


def test_is_the_same_whenever_it_is_measured(labs) -> None:
    first = memory(labs("both"))
    gc.collect()
    assert memory(labs("both")) == first


def test_does_not_grow_with_the_number_of_directions(labs) -> None:
    """Directions are measured one at a time, as a client without memory would run them."""
    assert memory(labs("last"), perturbation="max_jvp", num_directions=10) == memory(labs("last"))
