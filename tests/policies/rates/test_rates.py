"""Aggregation rates against numbers derived by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError
from fluxctl.policies.rates import RATES, RateInput
from fluxctl.policies.rates.grad_aware import cosine

pytestmark = pytest.mark.feature("B3")


def rates(name, inputs, gradients=None, **params):
    if gradients is None:
        gradients = np.ones((len(inputs), 2))
    return RATES.build(name, params).rates(inputs, np.asarray(gradients, dtype=np.float32))


def fresh(num):
    return [RateInput(0)] * num


def test_fedavg_is_one():
    assert rates("fedavg", [RateInput(0), RateInput(99)]).rates.tolist() == [1.0, 1.0]


def test_old_is_the_inverse_root():
    """1/sqrt(1), 1/sqrt(4), 1/sqrt(9)."""
    assert rates("old", [RateInput(0), RateInput(3), RateInput(8)]).rates == pytest.approx([1.0, 0.5, 1 / 3])


@pytest.mark.feature("B5")
def test_age_may_be_a_fraction_of_a_version():
    """On the clock of seconds: 1/sqrt(1 + 1.25) = 1/1.5."""
    assert rates("old", [RateInput(1.25)]).rates == pytest.approx([2 / 3])


@pytest.mark.parametrize(
    ("staleness", "utility", "expected"),
    [
        (0, 0.0, 0.7),  # .4 * 1 + .6 * (1.5 - 1)
        (15, 0.0, 0.5),  # 16^-.25 = 1/2: .2 + .3
        (0, 1023.0, 1.0),  # 1024^-.1 = 1/2: .4 + .6 * 1
        (15, 1023.0, 0.8),
        (0, 1e300, 1.3),  # the most that it can be: .4 + .6 * 1.5, above 1
        (0, math.nan, 0.7),  # unknown counts as 0
        (0, math.inf, 0.7),
        (0, -5.0, 0.7),
    ],
)
def test_new_mixes_staleness_and_utility(staleness, utility, expected):
    assert rates("new", [RateInput(staleness, utility)]).rates[0] == pytest.approx(expected)


class TestGradAware:
    def test_gates_what_points_away_from_what_was_merged_before(self):
        """Neutral base, floor 0.

        (1,0): nothing before it: 1. (0,1): cosine 0: 1. Running sum (1,1).
        (-1,0): cosine -1/sqrt2: align 1 - .70711 = .29289. Running sum (.70711, 1).
        (-1,-1): cosine -1.70711 / (sqrt2 * sqrt1.5) = -.98560: align .01440.
        """
        result = rates("grad_aware", fresh(4), [[1, 0], [0, 1], [-1, 0], [-1, -1]], base="neutral")
        assert result.rates == pytest.approx([1.0, 1.0, 0.29289, 0.01440], abs=1e-5)
        assert result.num_gated == 2

    @pytest.mark.parametrize(
        ("floor", "expected"),
        # Cosine -.6 to what was merged before.
        [
            (0.0, 0.4),  # (1 - .6) / 1
            (0.5, 0.4 / 1.5),
            (1.0, 0.2),  # (1 - .6) / 2
            (-0.5, 0.8),  # .4 / .5
            (-0.7, 1.0),  # -.6 is above the floor
        ],
    )
    def test_floor_is_the_cosine_from_which_an_update_counts_in_full(self, floor, expected):
        result = rates("grad_aware", fresh(2), [[1, 0], [-0.6, 0.8]], base="neutral", floor=floor)
        assert result.rates == pytest.approx([1.0, expected])
        assert result.num_gated == (expected < 1)

    def test_the_opposite_direction_counts_nothing(self):
        result = rates("grad_aware", fresh(2), [[1, 0], [-1, 0]], base="neutral")
        assert result.rates.tolist() == [1.0, 0.0]

    def test_magnitude_does_not_matter(self):
        small = rates("grad_aware", fresh(2), [[1e-15, 0], [-6e-16, 8e-16]], base="neutral")
        assert small.rates == pytest.approx([1.0, 0.4])

    def test_zero_vectors_are_not_gated(self):
        result = rates("grad_aware", fresh(3), [[0, 0], [1, 0], [0, 0]], base="neutral")
        assert result.rates.tolist() == [1.0, 1.0, 1.0]
        assert result.num_gated == 0

    def test_base_new_is_scaled(self):
        """s 15, U 1023: base .8; cosine -.6: align .4."""
        result = rates("grad_aware", [RateInput(0, 0.0), RateInput(15, 1023.0)], [[1, 0], [-0.6, 0.8]])
        assert result.rates == pytest.approx([0.7, 0.32])

    def test_the_running_sum_is_weighted_by_the_rates(self):
        """Base new: (2,0) at .7 gives (1.4,0); (0,1) at 1.0 makes it (1.4, 1).

        (-1,0): cosine -1.4 / sqrt(1.4^2 + 1) = -.81373, align .18627, times base .7 = .13039.
        """
        inputs = [RateInput(0, 0.0), RateInput(0, 1023.0), RateInput(0, 0.0)]
        result = rates("grad_aware", inputs, [[2, 0], [0, 1], [-1, 0]])
        assert result.rates == pytest.approx([0.7, 1.0, 0.13039], abs=1e-5)

    def test_depends_on_the_order_of_merging(self):
        forward = rates("grad_aware", fresh(2), [[1, 0], [-1, 0]], base="neutral").rates.tolist()
        backward = rates("grad_aware", fresh(2), [[-1, 0], [1, 0]], base="neutral").rates.tolist()
        assert forward == backward == [1.0, 0.0]  # the first one wins, whichever it is

    @pytest.mark.parametrize(
        ("variance", "expected"),
        [(0.6, 0.5), (0.3, 1.0), (0.1, 1.0), (0.0, 1.0), (3.0, 0.1), (math.inf, 0.0), (math.nan, 1.0), (None, 1.0)],
    )
    def test_inverse_variance_lowers_uncertain_updates(self, variance, expected):
        inputs = [RateInput(0, variance=variance)]
        certain = rates("grad_aware", inputs, base="neutral", inverse_variance=True)
        assert certain.rates[0] == pytest.approx(expected, abs=1e-6)
        assert certain.num_gated == 0  # the count is of the alignment gate only
        assert rates("grad_aware", inputs, base="neutral").rates[0] == 1.0  # off by default

    def test_a_gradient_that_is_not_finite_is_left_to_the_divergence_guard(self):
        result = rates("grad_aware", fresh(2), [[math.nan, 0], [1, 0]], base="neutral")
        assert result.rates.tolist() == [1.0, 1.0]

    @given(st.lists(st.floats(-2, 2), min_size=2, max_size=12).filter(lambda xs: len(xs) % 2 == 0))
    def test_alignment_never_raises_a_rate_above_a_neutral_base(self, numbers):
        """Pitfall: the utility rate exceeded 1 and inflated the server's step; the neutral base cannot."""
        gradients = np.reshape(numbers, (-1, 2))
        result = rates("grad_aware", fresh(len(gradients)), gradients, base="neutral")
        assert np.all((result.rates >= 0) & (result.rates <= 1))
        assert result.num_gated == np.count_nonzero(result.rates < 1)

    @pytest.mark.parametrize("params", [{"base": "newer"}, {"floor": -1.0}, {"reference_variance": 0.0}, {"flor": 0.1}])
    def test_bad_parameters_are_named(self, params):
        with pytest.raises(ConfigError, match=f"rate 'grad_aware': parameter '{next(iter(params))}'"):
            RATES.build("grad_aware", params)


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
)
def test_cosine_lies_between_minus_one_and_one_or_is_undefined(gradient, running):
    value = cosine(np.array(gradient, dtype=np.float32), np.array(running))
    assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9
