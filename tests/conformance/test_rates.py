"""What every rate must do, over everything registered."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.policies.rates import RATES, RateInput

pytestmark = pytest.mark.feature("B3")

UTILITIES = st.floats(0, 1e9) | st.sampled_from([math.nan, math.inf, -1.0])
AGES = st.integers(0, 10**6) | st.floats(0, 1e6)
INPUTS = st.builds(RateInput, AGES, UTILITIES, st.none() | st.floats(0, 1e6))
COHORTS = st.lists(st.tuples(INPUTS, st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 3)), max_size=8)
ORDER_FREE = sorted(set(RATES.names()) - {"grad_aware"})
BOUND = 1.3  # the largest rate that the formulas can give: new, fresh and of endless utility


def weigh(name, cohort):
    gradients = np.array([gradient for _, gradient in cohort], dtype=np.float32).reshape(-1, 3)
    before = gradients.copy()
    result = RATES.build(name, {}).rates([item for item, _ in cohort], gradients)
    np.testing.assert_array_equal(gradients, before)
    return result


@pytest.mark.parametrize("name", RATES.names())
@given(cohort=COHORTS)
def test_rates_are_finite_within_bounds_and_one_per_update(name, cohort):
    result = weigh(name, cohort)
    assert result.rates.shape == (len(cohort),)
    assert result.rates.dtype == np.float64
    assert np.all((result.rates >= 0) & (result.rates <= BOUND))
    assert 0 <= result.num_gated <= max(len(cohort) - 1, 0)  # the first one has nothing to point away from


@pytest.mark.parametrize("name", RATES.names())
@given(staleness=st.lists(AGES, min_size=2, max_size=6), utility=UTILITIES)
def test_older_updates_never_count_more(name, staleness, utility):
    rates = [weigh(name, [(RateInput(age, utility), (1.0, 0.0, 0.0))]).rates[0] for age in sorted(staleness)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("name", ORDER_FREE)
@settings(max_examples=50)
@given(data=st.data(), cohort=COHORTS)
def test_permuting_a_cohort_permutes_its_rates(name, data, cohort):
    order = data.draw(st.permutations(range(len(cohort))))
    permuted = weigh(name, [cohort[index] for index in order]).rates
    assert permuted.tolist() == weigh(name, cohort).rates[order].tolist()


@given(cohort=COHORTS)
def test_grad_aware_never_exceeds_its_base(cohort):
    assert np.all(weigh("grad_aware", cohort).rates <= weigh("new", cohort).rates)


@pytest.mark.parametrize("name", RATES.names())
def test_same_input_gives_the_same_answer(name):
    cohort = [(RateInput(age, 3.0), (1.0, -age, 0.5)) for age in range(5)]
    assert weigh(name, cohort).rates.tolist() == weigh(name, cohort).rates.tolist()
    assert len(RATES.entry(name).summary) > 10
