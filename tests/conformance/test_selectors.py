"""What every selector must do, over everything registered."""

import json
import math
import time
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.policies.selectors import SELECTORS, ClientBeliefs, EvaluatingSelector, SelectionView
from fluxctl.world.seeds import stream

VALUES = st.sampled_from([0.0, 1.0, math.nan, math.inf]) | st.floats(0, 1e6)
COUNTS = st.integers(0, 60)


def as_floats(values):
    return np.array(values, dtype=np.float64)


def as_integers(values):
    return np.array(values, dtype=np.int64)


@st.composite
def populations(draw, max_clients=7):
    """A population with its beliefs, and who is eligible: nobody, one, some or all."""
    num = draw(st.integers(0, max_clients))
    values, counts = st.lists(VALUES, min_size=num, max_size=num), st.lists(COUNTS, min_size=num, max_size=num)
    beliefs = ClientBeliefs(
        utility=as_floats(draw(values | st.just([0.0] * num))),
        duration_s=as_floats(draw(values)),
        last_round=as_integers(draw(counts)),
        num_selected=as_integers(draw(counts)),
        num_commits=as_integers(draw(counts)),
        modelled_duration_s=draw(st.none() | values.map(as_floats)),
        availability=draw(st.none() | values.map(as_floats)),
        last_evaluated=draw(st.none() | counts.map(as_integers)),
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


@pytest.mark.feature("B17", "A34")
@pytest.mark.parametrize("name", SELECTORS.names())
def test_chooses_from_a_hundred_thousand(name):
    """Vectorised: loops over clients would take seconds."""
    num = 100_000
    beliefs = ClientBeliefs(
        *(np.linspace(1, 60, num),) * 2,
        *(np.arange(num) % 400,) * 3,
        availability=np.linspace(0, 1, num),
    )
    selector = SELECTORS.build(name, {})
    situation = view((beliefs, np.arange(0, num, 2)), 401)
    start = time.thread_time()
    answer = selector.select(situation, 30, stream(0, "selection"), selector.initial_state())
    assert time.thread_time() - start < 0.5
    assert len(set(answer.chosen)) == 30


@pytest.mark.feature("B17")
@pytest.mark.parametrize(
    "name", [n for n in SELECTORS.names() if isinstance(SELECTORS.build(n, {}), EvaluatingSelector)]
)
@settings(max_examples=60)
@given(population=populations(), num_in_flight=st.integers(0, 5), round=st.integers(1, 90), seed=st.integers(0, 3))
def test_evaluations_are_distinct_eligible_clients_within_their_slots(name, population, num_in_flight, round, seed):
    selector = SELECTORS.build(name, {"eval_goal_factor": 1.5})  # three slots for a goal of two
    source = stream(seed, "evaluation")
    chosen = selector.select_evaluations(view(population, round), num_in_flight, source)
    assert len(chosen) <= max(3 - num_in_flight, 0)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(population[1].tolist())
    assert chosen == selector.select_evaluations(view(population, round), num_in_flight, source)
