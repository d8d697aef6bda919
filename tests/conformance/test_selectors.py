"""What every selector must do, over everything registered."""

import json
import math
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.policies.selectors import SELECTORS, ClientBeliefs, SelectionView
from fluxctl.world.seeds import stream

VALUES = st.sampled_from([0.0, 1.0, math.nan, math.inf]) | st.floats(0, 1e6)
COUNTS = st.integers(0, 60)


@st.composite
def populations(draw, max_clients=7):
    """A population with its beliefs, and who is eligible: nobody, one, some or all."""
    num = draw(st.integers(0, max_clients))
    values, counts = st.lists(VALUES, min_size=num, max_size=num), st.lists(COUNTS, min_size=num, max_size=num)
    beliefs = ClientBeliefs(
        utility=np.array(draw(values | st.just([0.0] * num)), dtype=np.float64),
        duration_s=np.array(draw(values), dtype=np.float64),
        last_round=np.array(draw(counts), dtype=np.int64),
        num_selected=np.array(draw(counts), dtype=np.int64),
        num_commits=np.array(draw(counts), dtype=np.int64),
    )
    eligible = draw(st.lists(st.booleans(), min_size=num, max_size=num) | st.just([True] * num))
    return beliefs, np.flatnonzero(eligible).astype(np.int64)


def view(population, round=1):
    beliefs, eligible = population
    allowed = frozenset(eligible.tolist())
    return SelectionView(
        round=round,
        num_clients=len(beliefs.utility),
        num_eligible=len(allowed),
        is_eligible=allowed.__contains__,
        eligible=eligible.copy,
        beliefs=beliefs,
        concurrency=5,
        goal=2,
    )


@pytest.mark.feature("A11", "B17")
@pytest.mark.parametrize("name", SELECTORS.names())
@settings(max_examples=120, deadline=None)
@given(population=populations(), num=st.integers(0, 9), round=st.integers(1, 90), seed=st.integers(0, 3))
def test_chooses_distinct_eligible_clients_as_many_as_there_are(name, population, num, round, seed):
    """Also for one to five clients, all-zero utilities and losses of NaN, where peers failed to make probabilities."""
    selector = SELECTORS.build(name, {})
    answer = selector.select(view(population, round), num, stream(seed, "selection"), selector.initial_state())
    assert len(answer.chosen) == min(num, len(population[1]))
    assert len(set(answer.chosen)) == len(answer.chosen)
    assert set(answer.chosen) <= set(population[1].tolist())
    assert all(type(client) is int for client in answer.chosen)
    json.dumps([dict(answer.state), dict(answer.detail)], allow_nan=False)


@pytest.mark.feature("A28")
@pytest.mark.parametrize("name", SELECTORS.names())
@settings(max_examples=50, deadline=None)
@given(population=populations(), num=st.integers(0, 5), round=st.integers(1, 90))
def test_same_stream_and_view_give_the_same_answer_and_nothing_is_changed(name, population, num, round):
    before = deepcopy(population)
    answers = []
    for _ in range(2):
        selector = SELECTORS.build(name, {})
        state = selector.initial_state()
        answers.append(selector.select(view(population, round), num, stream(1, "selection"), state))
        assert state == selector.initial_state()
    assert answers[0] == answers[1]
    for field in ClientBeliefs.__slots__:
        np.testing.assert_array_equal(getattr(population[0], field), getattr(before[0], field))
    np.testing.assert_array_equal(population[1], before[1])


@pytest.mark.parametrize("name", SELECTORS.names())
@settings(max_examples=15, deadline=None)
@given(population=populations(), num=st.integers(0, 3))
def test_state_carries_over_a_hundred_selections_and_over_a_file(name, population, num):
    selector = SELECTORS.build(name, {})
    kept, stored = selector.initial_state(), selector.initial_state()
    for round in range(1, 101):
        source = stream(0, "selection", version=round)
        direct = selector.select(view(population, round), num, source, kept)
        loaded = selector.select(view(population, round), num, source, json.loads(json.dumps(dict(stored))))
        assert direct == loaded
        kept, stored = direct.state, loaded.state
    assert set(kept) == set(selector.initial_state())


@pytest.mark.parametrize("name", SELECTORS.names())
def test_does_not_favour_clients_by_their_number(name):
    """Eight clients, alike in everything known: each is chosen about equally often, in 800 selections of one."""
    counts = np.zeros(8)
    alike = ClientBeliefs(np.ones(8), np.ones(8), *(np.ones(8, dtype=np.int64),) * 3)
    selector = SELECTORS.build(name, {})
    for draw in range(800):
        source = stream(0, "selection", version=draw)
        answer = selector.select(view((alike, np.arange(8)), 7), 1, source, selector.initial_state())
        counts[list(answer.chosen)] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 24.3  # chi-square with 7 degrees of freedom, p = .999


@pytest.mark.parametrize("name", SELECTORS.names())
def test_has_a_summary(name):
    assert len(SELECTORS.entry(name).summary) > 10
