"""Round robin: whose turn it is."""

import numpy as np
import pytest

from fluxctl.policies.selectors import SELECTORS
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")
SELECTOR = SELECTORS.build("round_robin", {})


def select(view, num, start):
    return SELECTOR.select(view, num, stream(0, "s"), {"next": float(start)})


def test_goes_on_where_it_stopped_and_around(situation):
    # Ten clients, four at a time, from 5: 5 6 7 8, then 9 0 1 2, then 3 4 5 6.
    state = {"next": 5.0}
    cohorts = []
    for _ in range(3):
        answer = SELECTOR.select(situation(10), 4, stream(0, "s"), state)
        state = answer.state
        cohorts.append(answer.chosen)
    assert cohorts == [(5, 6, 7, 8), (9, 0, 1, 2), (3, 4, 5, 6)]
    assert state == {"next": 7.0}


def test_skips_who_is_not_eligible_without_giving_up_a_turn(situation):
    # 4 is busy: 3, 5, 6; the next turn is 7's.
    answer = select(situation(10, eligible=[0, 1, 2, 3, 5, 6, 7, 8, 9]), 3, start=3)
    assert (answer.chosen, answer.state) == ((3, 5, 6), {"next": 7.0})


@pytest.mark.parametrize(("start", "expected"), [(0, (900, 950)), (901, (950, 999)), (960, (999, 900))])
def test_few_eligible_among_many(situation, start, expected):
    """Further apart than it is worth looking one by one."""
    assert select(situation(1000, eligible=[900, 950, 999]), 2, start).chosen == expected


def test_the_first_turn_is_drawn_and_everybody_gets_one_in_a_round(situation):
    firsts, everybody = set(), []
    for draw in range(40):
        answer = SELECTOR.select(situation(8), 1, stream(0, "s", version=draw), SELECTOR.initial_state())
        firsts.update(answer.chosen)
    state = SELECTOR.initial_state()
    for _ in range(4):
        answer = SELECTOR.select(situation(8), 2, stream(0, "s"), state)
        state = answer.state
        everybody += answer.chosen
    assert firsts == set(range(8))
    assert sorted(everybody) == list(range(8))


@pytest.mark.feature("A34")
def test_does_not_look_at_a_large_population(situation):
    """A million clients, all but three of them idle: a few looks, and never the list of the eligible."""
    view = situation(10)
    looks = []

    def is_eligible(client):
        looks.append(client)
        return client not in (7, 8, 9)

    large = type(view)(
        round=1,
        num_clients=1_000_000,
        num_eligible=999_997,
        is_eligible=is_eligible,
        eligible=lambda: pytest.fail("asked for all eligible clients"),
        beliefs=view.beliefs,
        concurrency=10,
        goal=10,
    )
    assert select(large, 5, start=6).chosen == (6, 10, 11, 12, 13)
    assert len(looks) == 8


def test_ids_are_plain_integers(situation):
    answer = select(situation(1000, eligible=[900, 950]), 2, 0)
    assert [type(client) for client in answer.chosen] == [int, int]
    assert not isinstance(answer.state["next"], np.generic)
