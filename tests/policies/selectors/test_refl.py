"""REFL: least available first, and rest after an update."""

import math

import pytest

from fluxctl.errors import ConfigError
from fluxctl.policies.selectors import SELECTORS
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")


def select(view, num, draw=0, **params):
    return SELECTORS.build("refl", params).select(view, num, stream(0, "s", version=draw), {})


def test_the_least_likely_to_stay_come_first(situation):
    answer = select(situation(5, availability=[0.9, 0.1, 1.0, 0.0, 0.4]), 3)
    assert answer.chosen == (3, 1, 4)
    assert answer.detail == {"availability": [0.0, 0.1, 0.4], "num_resting": 0}


@pytest.mark.parametrize(
    ("round", "chosen"),
    # Client 0, the least available, gave an update at 10: it rests in selections 11 to 60.
    [(11, 1), (60, 1), (61, 0)],
)
def test_a_client_rests_for_fifty_selections_after_its_update(situation, round, chosen):
    view = situation(2, availability=[0.1, 0.9], last_round=[10, 0], round=round)
    assert select(view, 1).chosen == (chosen,)


def test_resting_clients_fill_up_the_longest_rested_first(situation):
    # At 30 all but client 2 rest; of the others 3 gave its update first (5), then 0 (9).
    view = situation(4, availability=[0.0, 0.0, 1.0, 0.5], last_round=[9, 20, 0, 5], round=30)
    answer = select(view, 3)
    assert answer.chosen == (2, 3, 0)
    assert answer.detail == {"availability": [1.0, 0.5, 0.0], "num_resting": 2}


def test_unknown_availability_is_no_reason_to_hurry(situation):
    assert select(situation(3, availability=[math.nan, 0.99, math.nan]), 1).chosen == (1,)
    drawn = {select(situation(3), 1, draw).chosen[0] for draw in range(40)}  # of nobody: all alike
    assert drawn == {0, 1, 2}


def test_a_rest_of_none_means_that_only_availability_counts(situation):
    view = situation(2, availability=[0.1, 0.9], last_round=[10, 0], round=11)
    assert select(view, 1, rest_rounds=0).chosen == (0,)


def test_bad_parameters_are_named():
    with pytest.raises(ConfigError, match="selector 'refl': parameter 'rest_rounds'"):
        SELECTORS.build("refl", {"rest_rounds": -1})
