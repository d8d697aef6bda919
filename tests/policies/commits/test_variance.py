"""The variance gate's three reasons, against hand-made histories and a brute-force reading of the rule."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fluxctl.config.model import GateConfig
from fluxctl.errors import InvariantError
from fluxctl.policies.commits import commit_reason

pytestmark = pytest.mark.feature("B2")


def gate(**changes):
    return GateConfig(**{"var_threshold": 0.3, **changes})


def reason(settings, *history):
    return commit_reason(settings, history, len(history) - 1)


OFF = gate()
CAP = gate(stopping_policy="fixed_cap", max_iterations_per_bin=4)
PLATEAU = gate(stopping_policy="plateau")


class TestNatural:
    @pytest.mark.parametrize("settings", [OFF, CAP, PLATEAU])
    def test_commits_at_or_below_the_threshold(self, settings):
        assert reason(settings, 0.3) == "natural"
        assert reason(settings, 9.0, 0.29) == "natural"
        assert reason(settings, 0.30000000000000004) is None

    @pytest.mark.parametrize("undefined", [None, math.nan, math.inf, -math.inf])
    def test_an_undefined_variance_never_commits(self, undefined):
        assert reason(OFF, undefined) is None
        assert reason(PLATEAU, 0.9, 0.9, 0.9, undefined) is None

    def test_without_a_stopping_policy_a_bin_may_grind_on(self):
        assert reason(gate(max_iterations_per_bin=2), *[0.9] * 500) is None

    def test_a_gate_that_is_off_always_commits(self):
        assert reason(gate(enabled=False), None) == "natural"


class TestCap:
    def test_fires_in_its_last_iteration(self):
        assert reason(CAP, 0.9, 0.9, 0.9) is None
        assert reason(CAP, 0.9, 0.9, 0.9, 0.9) == "cap"
        assert reason(CAP, 0.9, 0.9, 0.9, None) == "cap"

    def test_comes_after_natural_and_before_plateau(self):
        both = gate(stopping_policy="plateau", max_iterations_per_bin=4)
        assert reason(both, 0.9, 0.9, 0.9, 0.2) == "natural"
        assert reason(both, 0.9, 0.9, 0.9, 0.9) == "cap"
        assert reason(gate(stopping_policy="plateau", max_iterations_per_bin=5), 0.9, 0.9, 0.9, 0.9) == "plateau"

    def test_of_one_commits_every_iteration(self):
        assert reason(gate(stopping_policy="fixed_cap", max_iterations_per_bin=1), 0.9) == "cap"


class TestPlateau:
    def test_needs_one_value_more_than_the_window(self):
        """Pitfall: it fired on the first, high-variance bin."""
        assert reason(PLATEAU, 0.9) is None
        assert reason(PLATEAU, 0.9, 0.9, 0.9) is None
        assert reason(PLATEAU, 0.9, 0.9, 0.9, 0.9) == "plateau"

    @pytest.mark.parametrize(
        ("now", "expected"),
        # Against 1.0 three iterations before: a drop below 15 % is a plateau; a rise is one, too.
        [(0.86, "plateau"), (0.84, None), (0.31, None), (1.2, "plateau")],
    )
    def test_compares_with_the_value_a_window_before(self, now, expected):
        assert reason(PLATEAU, 50.0, 1.0, 77.0, 77.0, now) == expected

    def test_a_drop_of_exactly_eps_is_not_a_plateau(self):
        settings = gate(stopping_policy="plateau", plateau_min_drop=0.25)  # 1/4 is exact in binary
        assert reason(settings, 1.0, 1.0, 1.0, 0.75) is None

    def test_window_and_drop_are_settings(self):
        settings = gate(stopping_policy="plateau", plateau_window=1, plateau_min_drop=0.5)
        assert reason(settings, 1.0, 0.6) == "plateau"
        assert reason(settings, 1.0, 0.4) is None

    @pytest.mark.parametrize("earlier", [None, math.nan, math.inf, 0.0])
    def test_an_undefined_or_zero_start_is_no_plateau(self, earlier):
        assert reason(PLATEAU, earlier, 0.9, 0.9, 0.9) is None


VARIANCES = st.none() | st.floats(0, 2, allow_nan=False) | st.sampled_from([0.3, math.nan, math.inf])


@given(
    st.lists(VARIANCES, min_size=1, max_size=8),
    st.sampled_from(["off", "fixed_cap", "plateau"]),
    st.none() | st.integers(1, 8),
    st.integers(1, 4),
)
def test_agrees_with_the_rule_as_written(history, policy, cap, window):
    if policy == "fixed_cap" and cap is None:
        cap = 1
    settings = gate(stopping_policy=policy, max_iterations_per_bin=cap, plateau_window=window)
    t, now = len(history) - 1, history[-1]
    sound = [value is not None and math.isfinite(value) for value in history]
    expected = None
    if policy == "plateau" and t >= window and sound[t] and sound[t - window]:
        start = history[t - window]
        if now > 0.3 and start > 0 and (start - now) / start < 0.15:
            expected = "plateau"
    if policy != "off" and cap is not None and t + 1 >= cap:
        expected = "cap"
    if sound[t] and now <= 0.3:
        expected = "natural"
    assert reason(settings, *history) == expected


def test_a_history_of_another_bin_is_a_bug():
    with pytest.raises(InvariantError, match="3 variances for iteration 0"):
        commit_reason(OFF, [0.9, 0.9, 0.9], 0)


@pytest.mark.parametrize("bad", [{"stopping_policy": "plato"}, {"stopping_policy": "fixed_cap"}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValidationError):
        gate(**bad)
