"""The ladder's statistics against scipy, brute force, and values worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from fluxctl.parity.result import Status
from fluxctl.parity.stats import block_bootstrap_mean, grid_ks, judged_ks, ks, relative, spearman, tost, tvd
from fluxctl.world.seeds import stream

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
SAMPLES = st.lists(NUMBERS, min_size=1, max_size=25)


def brute_d(left, right):
    points = sorted({*left, *right})
    share = lambda sample, point: sum(value <= point for value in sample) / len(sample)  # noqa: E731
    return max(abs(share(left, point) - share(right, point)) for point in points)


@given(SAMPLES, SAMPLES)
def test_ks_distance_is_the_largest_gap_between_both_distribution_functions(left, right) -> None:
    found = ks(left, right)
    if not found.is_point_mass:
        assert found.d == pytest.approx(brute_d(left, right))
    assert found.n == min(len(left), len(right))
    assert ks(right, left).d == pytest.approx(found.d)


def test_ks_probability_is_exact_by_counting_all_arrangements() -> None:
    left, right = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 2.5]
    observed = brute_d(left, right)
    pooled = range(7)
    arrangements = list(itertools.combinations(pooled, 3))
    extreme = sum(
        brute_d(chosen, [i for i in pooled if i not in chosen]) >= observed - 1e-12 for chosen in arrangements
    )
    assert ks(left, right).p == pytest.approx(extreme / len(arrangements))


def test_ks_of_large_samples_uses_the_asymptotic_probability() -> None:
    draws = stream(1, "test").generator()
    left, right = draws.normal(size=3000), draws.normal(0.1, size=2500)
    expected = scipy_stats.ks_2samp(left, right, method="asymp")
    assert (ks(left, right).d, ks(left, right).p) == pytest.approx((expected.statistic, expected.pvalue))


@pytest.mark.parametrize(
    ("left", "right", "is_point_mass", "d"),
    [
        ([3.0] * 5, [3.0] * 9, True, 0.0),
        ([3.0] * 5, [3.0 + 1e-12] * 9, True, 0.0),
        ([0.0], [0.0], True, 0.0),
        ([3.0] * 5, [4.0] * 5, False, 1.0),
        ([math.nan, 1.0, 2.0], [1.0, 2.0, math.nan, math.nan], False, 0.0),
    ],
)
def test_ks_of_constants_and_missing_numbers(left, right, is_point_mass, d) -> None:
    found = ks(left, right)
    assert (found.is_point_mass, found.d) == (is_point_mass, d)


@pytest.mark.parametrize("function", [ks, grid_ks, tost])
@pytest.mark.parametrize("sample", [[], [math.nan]])
def test_an_empty_sample_is_refused(function, sample) -> None:
    with pytest.raises(ValueError, match="empty"):
        function(sample, [1.0])


def test_on_a_grid_less_than_half_a_step_is_no_difference() -> None:
    left, right = [1.0, 2.0, 3.0, 4.0], [1.2, 2.2, 3.2, 4.2]
    assert ks(left, right).d == 0.25
    assert grid_ks(left, right).d == 0.0
    assert grid_ks([10.0, 20.0], [11.0, 24.0], step=10).d == 0.0
    assert grid_ks([10.0, 20.0], [10.0, 26.0], step=10).d == 0.5


def test_tost_agrees_with_two_welch_tests() -> None:
    draws = stream(2, "test").generator()
    left, right = draws.normal(10, 1, 40), draws.normal(10.3, 2, 60)
    bound = 0.1 * max(left.mean(), right.mean())
    above = scipy_stats.ttest_ind(left, right - bound, equal_var=False, alternative="greater").pvalue
    below = scipy_stats.ttest_ind(left, right + bound, equal_var=False, alternative="less").pvalue
    found = tost(left, right)
    assert found.p == pytest.approx(max(above, below))
    interval = scipy_stats.ttest_ind(left, right, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.is_equivalent is bool(-bound < interval.low and interval.high < bound)


def test_tost_needs_evidence_but_not_of_constants() -> None:
    assert not tost([1.0, 30.0], [15.0, 16.0]).is_equivalent  # equal means, far too few samples
    assert tost([5.0] * 3, [5.4] * 3).is_equivalent  # 8 % apart, both certain
    assert not tost([5.0] * 3, [6.0] * 3).is_equivalent
    assert tost([0.0], [0.0]).is_equivalent


@given(NUMBERS, NUMBERS)
def test_relative_difference_is_symmetric_and_bounded(left, right) -> None:
    assert relative(left, right) == relative(right, left)
    assert 0 <= relative(left, right) <= 2


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(0.0, 0.0, 0.0), (0.0, 5.0, 1.0), (8.0, 10.0, 0.2), (-1.0, 1.0, 2.0), (math.inf, math.inf, 0.0)],
)
def test_relative_difference_by_hand(left, right, expected) -> None:
    assert relative(left, right) == pytest.approx(expected)
    assert math.isnan(relative(math.nan, 1.0))
    assert relative(math.inf, 1.0) == math.inf


def test_total_variation_distance_by_hand() -> None:
    assert tvd([1, 1], [1, 3]) == pytest.approx(0.25)  # shares 1/2 1/2 and 1/4 3/4
    assert tvd({"a": 2.0}, {"b": 7.0}) == 1.0
    assert tvd({"a": 1.0, "b": 1.0}, {"b": 5.0, "a": 5.0}) == 0.0
    assert (tvd([0, 0], [0, 0]), tvd([0, 0], [1, 0])) == (0.0, 1.0)
    for p, q in (([1.0], [1.0, 2.0]), ([-1.0, 2.0], [1.0, 1.0])):
        with pytest.raises(ValueError, match="weights"):
            tvd(p, q)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=20))
def test_spearman_agrees_with_scipy_where_both_vary(pairs) -> None:
    a, b = zip(*pairs, strict=True)
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(scipy_stats.spearmanr(a, b).statistic)


def test_spearman_of_what_does_not_vary() -> None:
    assert (spearman([1, 1], [2, 2]), spearman([1, 1], [1, 2]), spearman([4], [9]), spearman([], [])) == (1, 0, 1, 1)
    assert spearman([1, 2, math.nan], [1, 2, 0]) == pytest.approx(1)
    with pytest.raises(ValueError, match="paired"):
        spearman([1, 2], [1])


def test_block_bootstrap_covers_the_mean_of_a_correlated_series_where_single_draws_do_not() -> None:
    covered, covered_singly = 0, 0
    for seed in range(60):
        noise = stream(seed, "ar").generator().normal(size=400)
        series = np.zeros(400)
        for index in range(1, 400):
            series[index] = 0.9 * series[index - 1] + noise[index]
        low, high = block_bootstrap_mean(series, seed, block=40)
        covered += low <= 0 <= high
        low, high = block_bootstrap_mean(series, seed, block=1)
        covered_singly += low <= 0 <= high
    assert covered >= 48  # 95 % nominal, less for a finite block
    assert covered_singly < 36  # what ignoring the correlation would claim


def test_block_bootstrap_is_keyed_and_exact_for_constants() -> None:
    series = stream(3, "test").generator().normal(size=50)
    assert block_bootstrap_mean(series, 7) == block_bootstrap_mean(series, stream(7, "block-bootstrap"))
    assert block_bootstrap_mean(series, 7) != block_bootstrap_mean(series, 8)
    assert block_bootstrap_mean([2.0] * 9) == pytest.approx((2.0, 2.0))
    assert block_bootstrap_mean([2.0], block=5) == pytest.approx((2.0, 2.0))
    with pytest.raises(ValueError, match="empty"):
        block_bootstrap_mean([])


UNIFORM = [index / 40 for index in range(40)]


@pytest.mark.feature("D0i")
@pytest.mark.parametrize(
    ("left", "right", "extra", "status"),
    [
        (UNIFORM, UNIFORM, {}, Status.PASS),
        (UNIFORM, [value + 0.1 for value in UNIFORM], {}, Status.PASS),
        (UNIFORM, [value + 0.5 for value in UNIFORM], {}, Status.FAIL),
        (UNIFORM, [value + 0.5 for value in UNIFORM], {"negligible": 2.0}, Status.PASS),
        (UNIFORM, [value + 0.1 for value in UNIFORM], {"max_relative": 0.05}, Status.FAIL),
        (UNIFORM, [value + 0.1 for value in UNIFORM], {"max_difference": 0.05}, Status.FAIL),
        (UNIFORM, [value + 0.5 for value in UNIFORM], {"step": 100.0}, Status.PASS),
        ([7.0] * 20, [7.0] * 30, {}, Status.PASS),
        ([7.0] * 20, [8.0] * 30, {}, Status.FAIL),
        (UNIFORM[:19], UNIFORM, {}, Status.INCONCLUSIVE),
        ([], UNIFORM, {}, Status.INCONCLUSIVE),
        ([math.nan] * 40, UNIFORM, {}, Status.INCONCLUSIVE),
        ([], [math.nan], {}, Status.SKIP),
    ],
)
def test_judged_ks_follows_its_rules_in_order(left, right, extra, status) -> None:
    finding = judged_ks(left, right, 0.2, "a number", **extra)
    assert finding.status is status
    assert finding.message.startswith("a number: ")
    if status is Status.INCONCLUSIVE:
        assert finding.n == min(19 if len(left) == 19 else 0, len(right))
        assert "at least 20" in finding.message
        assert finding.value is None
    if status is Status.FAIL:
        assert finding.value is not None
        assert finding.detail["mean_left"] != finding.detail["mean_right"]


@given(st.lists(NUMBERS, max_size=19), st.lists(NUMBERS, max_size=60))
def test_too_few_samples_never_fail(few, many) -> None:
    for left, right in ((few, many), (many, few)):
        assert judged_ks(left, right, 0.0, "anything").status in (Status.INCONCLUSIVE, Status.SKIP)
