"""Server optimizers against torch's own, numbers by hand, and what must not change."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, UnknownNameError
from fluxctl.learn.server_optim import OPTIMIZERS, ServerOptimizer, ServerSettings
from fluxctl.learn.server_step import clipped, linear_factor, sgd_step
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B15")
NAMES = sorted(OPTIMIZERS)
NUM_PARAMS = 50


def vector(draw: int, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(stream(0, "test-server").normals(NUM_PARAMS, draw)) * scale


def run(optimizer: ServerOptimizer, params: torch.Tensor, aggregates) -> torch.Tensor:
    for aggregate in aggregates:
        params = optimizer.step(params, aggregate)
    return params


def make(name: str, total_steps: int | None = None, **settings) -> ServerOptimizer:
    return ServerOptimizer(ServerSettings(name, **settings), total_steps)


AGGREGATES = [vector(draw) for draw in range(1, 9)]


def test_plain_sgd_is_todays_step_in_every_bit() -> None:
    optimizer, ours, today = make("sgd", lr=0.075), vector(0), vector(0)
    for aggregate in AGGREGATES:
        ours, today = optimizer.step(ours, aggregate), sgd_step(today, aggregate, 0.075)
        assert torch.equal(ours, today)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("sgd", lambda leaf: torch.optim.SGD([leaf], lr=0.1)),
        ("momentum", lambda leaf: torch.optim.SGD([leaf], lr=0.1, momentum=0.8)),
        ("adam", lambda leaf: torch.optim.Adam([leaf], lr=0.1, betas=(0.7, 0.95), eps=1e-4)),
        ("adagrad", lambda leaf: torch.optim.Adagrad([leaf], lr=0.1, eps=1e-4)),
    ],
)
def test_equals_torch(name: str, theirs) -> None:
    leaf = torch.nn.Parameter(vector(0))
    oracle = theirs(leaf)
    for aggregate in AGGREGATES:
        leaf.grad = aggregate.clone()
        oracle.step()
    ours = run(make(name, lr=0.1, momentum=0.8, beta1=0.7, beta2=0.95, eps=1e-4), vector(0), AGGREGATES)
    assert torch.equal(ours, leaf.detach())


def test_momentum_by_hand() -> None:
    """Velocity 2, then .5 * 2 + 2 = 3: theta 1 - .1 * 2 = .8, then .8 - .1 * 3 = .5."""
    optimizer = make("momentum", lr=0.1, momentum=0.5)
    first = optimizer.step(torch.tensor([1.0]), torch.tensor([2.0]))
    assert first.item() == pytest.approx(0.8)
    assert optimizer.step(first, torch.tensor([2.0])).item() == pytest.approx(0.5)


def test_yogi_by_hand() -> None:
    """beta1 .5, beta2 .75, eps .5, lr 1; the mean square starts at .5^2 = .25.

    g = 2: mean .5 * 0 + .5 * 2 = 1. The square is below g^2 = 4, so it grows by .25 * 4: 1.25.
    Step 1 / (sqrt 1.25 + .5) = 1 / 1.618034 = .618034. theta 1 - .618034 = .381966.

    g = .5: mean .5 * 1 + .5 * .5 = .75. 1.25 is above g^2 = .25, so it shrinks by .25 * .25: 1.1875 (Adam would go to
    .75 * 1.25 + .0625 = 1). Step .75 / (1.089725 + .5) = .471780. theta .381966 - .471780 = -.089814.
    """
    optimizer = make("yogi", lr=1.0, beta1=0.5, beta2=0.75, eps=0.5)
    first = optimizer.step(torch.tensor([1.0]), torch.tensor([2.0]))
    assert first.item() == pytest.approx(0.381966, abs=1e-6)
    assert optimizer.step(first, torch.tensor([0.5])).item() == pytest.approx(-0.089814, abs=1e-6)
    arrays, _ = optimizer.state()
    assert (arrays["mean"].item(), arrays["square"].item()) == (0.75, 1.1875)


@pytest.mark.parametrize("name", NAMES)
def test_leaves_its_arguments_alone_and_returns_memory_of_its_own(name: str) -> None:
    optimizer, params, aggregate = make(name), vector(0), vector(1)
    before = params.clone(), aggregate.clone()
    stepped = optimizer.step(params, aggregate)
    kept = stepped.clone()
    optimizer.step(stepped, aggregate)
    assert torch.equal(params, before[0])
    assert torch.equal(aggregate, before[1])
    assert torch.equal(stepped, kept)
    assert not stepped.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_starts_by_going_down_the_aggregate(name: str) -> None:
    aggregate = vector(1)
    moved = make(name).step(vector(0), aggregate) - vector(0)
    assert torch.equal(moved.sign(), -aggregate.sign())


@pytest.mark.parametrize("name", NAMES)
def test_a_zero_aggregate_at_rest_changes_nothing(name: str) -> None:
    assert torch.equal(make(name).step(vector(0), torch.zeros(NUM_PARAMS)), vector(0))


@pytest.mark.parametrize("name", ["adam", "adagrad", "yogi"])
def test_adaptive_steps_do_not_depend_on_the_scale_of_the_aggregate(name: str) -> None:
    """But for eps, a hundred times larger aggregates give the same steps."""
    small = run(make(name, eps=1e-8), vector(0), AGGREGATES)
    large = run(make(name, eps=1e-8), vector(0), [100 * aggregate for aggregate in AGGREGATES])
    torch.testing.assert_close(large, small, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_minimises_a_quadratic(name: str) -> None:
    """Gradient theta - 3: every optimizer must get near 3 from 0."""
    optimizer, params = make(name, lr=0.1), torch.zeros(NUM_PARAMS)
    for _ in range(1200):
        params = optimizer.step(params, params - 3.0)
    torch.testing.assert_close(params, torch.full((NUM_PARAMS,), 3.0), rtol=0, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", [0, 3])
def test_goes_on_from_a_saved_state_as_if_uninterrupted(name: str, at: int) -> None:
    options = {"lr": 0.1, "clip_norm": 7.0, "schedule": "linear", "warmup_ratio": 0.25}
    whole, first, second = (make(name, 8, **options) for _ in range(3))
    middle = run(first, vector(0), AGGREGATES[:at])
    arrays, meta = first.state()
    second.load({key: value.clone() for key, value in arrays.items()}, json.loads(json.dumps(meta)))
    again = second.state()  # saved before anything else happens
    assert again[1] == meta
    assert set(again[0]) == set(arrays)
    assert torch.equal(run(second, middle, AGGREGATES[at:]), run(whole, vector(0), AGGREGATES))
    assert (second.num_steps, second.num_clipped) == (whole.num_steps, whole.num_clipped)


def test_a_saved_state_is_not_changed_by_later_steps() -> None:
    for name in NAMES:
        optimizer = make(name)
        params = optimizer.step(vector(0), vector(1))
        arrays, _ = optimizer.state()
        kept = {key: value.clone() for key, value in arrays.items()}
        optimizer.step(params, vector(2))
        assert all(torch.equal(arrays[key], kept[key]) for key in kept), name


def test_state_of_another_optimizer_is_refused() -> None:
    with pytest.raises(ValueError, match="state of 'adam' cannot be used by 'yogi'"):
        make("yogi").load(*make("adam").state())


@pytest.mark.parametrize("name", NAMES)
def test_non_finite_aggregates_reach_the_model_for_the_guard_to_see(name: str) -> None:
    broken = vector(1)
    broken[0] = math.nan
    assert not make(name, clip_norm=1.0).step(vector(0), broken).isfinite().all()


class TestClipping:
    def test_a_long_aggregate_keeps_its_direction(self) -> None:
        """(3, 4) has norm 5: to 2.5 it is (1.5, 2)."""
        assert clipped(torch.tensor([3.0, 4.0]), 2.5).tolist() == [1.5, 2.0]

    def test_a_short_one_is_left_as_it_is(self) -> None:
        aggregate = torch.tensor([3.0, 4.0])
        assert clipped(aggregate, 5.0) is aggregate
        assert clipped(torch.zeros(2), 1.0).tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_divergence_is_not_hidden(self, value: float) -> None:
        aggregate = torch.tensor([value, 1.0])
        assert clipped(aggregate, 1.0) is aggregate

    @given(st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=1, max_size=6), st.floats(1e-3, 1e3))
    def test_the_norm_is_at_most_the_limit(self, values: list[float], limit: float) -> None:
        assert float(clipped(torch.tensor(values), limit).double().norm()) <= limit * (1 + 1e-6)

    def test_the_optimizer_counts_what_it_clipped(self) -> None:
        optimizer = make("sgd", lr=1.0, clip_norm=1.0)
        params = optimizer.step(torch.zeros(2), torch.tensor([3.0, 4.0]))
        assert params.tolist() == pytest.approx([-0.6, -0.8])
        optimizer.step(params, torch.tensor([0.1, 0.1]))
        assert (optimizer.num_steps, optimizer.num_clipped) == (2, 1)

    def test_no_limit_is_the_same_in_every_bit_as_a_limit_that_is_never_reached(self) -> None:
        without, within = make("sgd"), make("sgd", clip_norm=1e9)
        assert torch.equal(run(without, vector(0), AGGREGATES), run(within, vector(0), AGGREGATES))


class TestSchedule:
    def test_falls_to_zero_at_the_end(self) -> None:
        """Four steps without warm-up: 4/4, 3/4, 2/4, 1/4; beyond them 0."""
        assert [linear_factor(step, 4, 0.0) for step in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]

    def test_rises_over_the_warm_up(self) -> None:
        """Ten steps, ceil(.35 * 10) = 4 of them warm-up: 1/4 .. 4/4; then 6/6 .. 1/6."""
        factors = [linear_factor(step, 10, 0.35) for step in range(10)]
        assert factors == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])

    def test_a_whole_number_of_warm_up_steps_is_not_rounded_up(self) -> None:
        """.1 * 30 is 3.0000000000000004 in floating point: three steps, and step 2 is the top."""
        assert linear_factor(2, 30, 0.1) == linear_factor(3, 30, 0.1) == 1.0

    @pytest.mark.parametrize("name", NAMES)
    def test_every_optimizer_follows_it(self, name: str) -> None:
        """The last of two steps is at half the rate: compared with a constant run, it moves half as far."""
        falling, constant = make(name, 2, lr=0.1, schedule="linear"), make(name, lr=0.1)
        start = falling.step(vector(0), vector(1))
        assert torch.equal(start, constant.step(vector(0), vector(1)))
        assert falling.lr == pytest.approx(0.05)
        moved = falling.step(start, vector(2)) - start
        torch.testing.assert_close(2 * moved, constant.step(start, vector(2)) - start)

    def test_needs_to_know_how_many_steps_there_are(self) -> None:
        with pytest.raises(ConfigError, match="needs to know how many bins"):
            make("sgd", schedule="linear")


def test_unknown_optimizers_are_named() -> None:
    with pytest.raises(UnknownNameError, match="unknown server optimizer 'adm'") as caught:
        make("adm")
    assert caught.value.hint == "did you mean 'adam'?"
