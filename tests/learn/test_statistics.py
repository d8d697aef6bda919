"""Gate statistic, server step and evaluation against numbers by hand and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.learn.evaluate import matthews
from fluxctl.learn.gate_stat import mean, split_half_variance, statistical_utility
from fluxctl.learn.server_step import aggregate, sgd_step


@pytest.mark.feature("B8")
def test_split_half_variance_by_hand() -> None:
    updates = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0], [2.0, 3.0], [1.0, -1.0]])
    # first two: (2, 1); last three: (1, 1); ((2 - 1)^2 / 2 + 0) / 2
    assert split_half_variance(updates) == pytest.approx(0.25)
    assert split_half_variance(updates[:2]) == pytest.approx((4 / 2 + 4 / 2) / 2)


@pytest.mark.feature("B8")
def test_fewer_than_two_updates_have_no_variance() -> None:
    assert split_half_variance(torch.zeros(0, 3)) is None
    assert split_half_variance(torch.ones(1, 3)) is None
    assert split_half_variance(torch.ones(2, 3)) == 0.0


@pytest.mark.feature("B8")
def test_order_of_updates_matters_across_halves_only() -> None:
    updates = torch.tensor([[1.0], [2.0], [5.0], [9.0]])
    assert split_half_variance(updates) == split_half_variance(updates[[1, 0, 3, 2]])
    assert split_half_variance(updates) != split_half_variance(updates[[0, 2, 1, 3]])


@pytest.mark.feature("B8")
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 1000))
def test_split_half_variance_equals_numpy(num: int, size: int, seed: int) -> None:
    updates = np.random.default_rng(seed).normal(size=(num, size)).astype(np.float32)
    halves = updates[: num // 2].astype(np.float64), updates[num // 2 :].astype(np.float64)
    expected = np.mean((halves[0].mean(axis=0) - halves[1].mean(axis=0)) ** 2 / 2)
    assert split_half_variance(torch.from_numpy(updates)) == pytest.approx(expected, rel=1e-9)


def test_a_diverged_update_gives_nan() -> None:
    found = split_half_variance(torch.tensor([[1.0], [math.nan]]))
    assert found is not None
    assert math.isnan(found)


def test_statistical_utility_by_hand() -> None:
    assert statistical_utility([3.0, 4.0]) == pytest.approx(2 * math.sqrt(12.5))
    assert statistical_utility([math.inf, 1.0]) == math.inf


@given(st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=20))
def test_mean_does_not_depend_on_order(values: list[float]) -> None:
    assert mean(values) == mean(sorted(values)) == pytest.approx(float(np.mean(values)), rel=1e-12)


def test_aggregate_and_sgd_by_hand() -> None:
    gradients = torch.tensor([[1.0, 2.0], [3.0, -2.0]])
    total = aggregate(gradients, torch.tensor([0.5, 0.25]))
    assert total.tolist() == [1.25, 0.5]
    params = torch.tensor([1.0, 1.0])
    assert sgd_step(params, total, 2.0).tolist() == [-1.5, 0.0]
    assert params.tolist() == [1.0, 1.0]


def brute_force_mcc(confusion: np.ndarray) -> float:
    """Correlation of the indicator vectors, summed over classes (Gorodkin 2004, definition)."""
    size = len(confusion)
    pairs = [(t, p) for t, p in itertools.product(range(size), repeat=2) for _ in range(confusion[t, p])]
    true = np.array([[t == k for k in range(size)] for t, _ in pairs], dtype=float)
    predicted = np.array([[p == k for k in range(size)] for _, p in pairs], dtype=float)
    true, predicted = true - true.mean(axis=0), predicted - predicted.mean(axis=0)
    scale = math.sqrt((true**2).sum() * (predicted**2).sum())
    return float((true * predicted).sum() / scale) if scale > 0 else 0.0


@given(st.integers(2, 4), st.integers(0, 1000))
def test_matthews_equals_its_definition(size: int, seed: int) -> None:
    confusion = np.random.default_rng(seed).integers(0, 6, (size, size))
    confusion[0, 0] += 1
    assert matthews(torch.from_numpy(confusion)) == pytest.approx(brute_force_mcc(confusion), abs=1e-9)


def test_matthews_of_known_cases() -> None:
    assert matthews(torch.diag(torch.tensor([3, 4, 5]))) == 1.0
    assert matthews(torch.tensor([[0, 3], [3, 0]])) == -1.0
    assert matthews(torch.tensor([[5, 0], [5, 0]])) == 0.0


def test_evaluation_equals_the_uncached_model(lab) -> None:
    params = lab.params()
    found = lab.learner().evaluate(params)
    logits = lab.encoder.logits(params.unsqueeze(0), lab.token_ids, lab.lengths)[0]
    labels, predicted = lab.features.labels, logits.argmax(dim=1)
    assert found.accuracy == pytest.approx(float((predicted == labels).double().mean()))
    assert found.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-4)
    assert found.predicted_counts == tuple(torch.bincount(predicted, minlength=4).tolist())
    assert found.label_counts == tuple(torch.bincount(labels, minlength=4).tolist())
    assert found.num_samples == len(labels) == sum(found.predicted_counts)
    assert lab.learner().evaluate(params) == found


def test_evaluation_of_a_diverged_model(labs) -> None:
    lab = labs("last")
    found = lab.learner().evaluate(torch.full_like(lab.params(), math.nan))
    assert math.isnan(found.loss)
    assert found.mcc == 0.0
