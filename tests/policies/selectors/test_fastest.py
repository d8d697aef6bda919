"""The smallest duration first."""

import math

import pytest

from fluxctl.policies.selectors import SELECTORS
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")
NAN = math.nan


def select(view, num, draw=0):
    return SELECTORS.build("fastest", {}).select(view, num, stream(0, "s", version=draw), {})


def test_the_three_fastest_in_order(situation):
    answer = select(situation(5, duration_s=[30, 2, 60, 10, 5]), 3)
    assert answer.chosen == (1, 4, 3)
    assert answer.detail == {"duration_s": [2.0, 5.0, 10.0]}


def test_the_fastest_one_is_busy(situation):
    assert select(situation(5, duration_s=[30, 2, 60, 10, 5], eligible=[0, 2, 3, 4]), 2).chosen == (4, 3)


def test_an_unknown_client_is_measured_first(situation):
    answer = select(situation(3, duration_s=[1, NAN, 2]), 2)
    assert answer.chosen == (1, 0)
    assert answer.detail == {"duration_s": [None, 1.0]}


def test_a_modelled_duration_counts_until_one_was_observed(situation):
    # Observed 9, -, 3 over modelled 1, 5, 8: 9, 5, 3.
    view = situation(3, duration_s=[9, NAN, 3], modelled_duration_s=[1, 5, 8])
    assert select(view, 3).chosen == (2, 1, 0)


def test_equal_ones_are_drawn(situation):
    firsts = {select(situation(4, duration_s=[5, 5, 5, 9]), 1, draw).chosen[0] for draw in range(40)}
    assert firsts == {0, 1, 2}
