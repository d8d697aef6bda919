"""What every controller must do, over everything registered."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.policies.control import CONTROLLERS, CommitRecord, ControlState, advance

pytestmark = pytest.mark.feature("B4")
SCHEDULED = sorted(set(CONTROLLERS.names()) - {"off"})
VALUES = st.floats(0, 1e9) | st.sampled_from([math.nan, math.inf])
RECORDS = st.lists(
    st.builds(CommitRecord, st.integers(1, 1000), st.none() | VALUES, VALUES, VALUES), min_size=1, max_size=40
)
SETTINGS = st.fixed_dictionaries(
    {"update_every": st.integers(1, 12), "window": st.integers(6, 20)},
    optional={
        "goal_min": st.integers(1, 15),
        "goal_max": st.integers(15, 40),
        "concurrency_min": st.integers(1, 20),
        "concurrency_max": st.integers(20, 60),
    },
)


def play(name, params, records, *, num_clients, goal=10, concurrency=30):
    """All decisions on a run's commits, and the state after them."""
    controller = CONTROLLERS.build(name, params)
    state, decisions = ControlState(goal, concurrency), []
    for record in records:
        state, decision = advance(controller, state, record, num_clients=num_clients, var_threshold=0.3)
        decisions += [] if decision is None else [decision]
    return state, decisions


@pytest.mark.parametrize("name", SCHEDULED)
@settings(max_examples=80)
@given(params=SETTINGS, records=RECORDS, num_clients=st.integers(1, 200), goal=st.integers(1, 50))
def test_decisions_stay_within_their_bounds(name, params, records, num_clients, goal):
    state, decisions = play(name, params, records, num_clients=num_clients, goal=goal, concurrency=max(goal, 30))
    most = min(params.get("concurrency_max", num_clients), num_clients)
    for decision in decisions:
        assert 1 <= decision.goal <= decision.concurrency <= num_clients
        assert decision.goal <= params.get("goal_max", 15)
        assert decision.goal >= min(params.get("goal_min", 5), decision.concurrency)
        assert min(params.get("concurrency_min", 5), most) <= decision.concurrency <= most
        json.dumps(dict(decision.inputs), allow_nan=False)
    if decisions:
        assert (state.goal, state.concurrency) == (decisions[-1].goal, decisions[-1].concurrency)
    else:
        assert (state.goal, state.concurrency) == (goal, max(goal, 30))


@pytest.mark.parametrize("name", SCHEDULED)
@settings(max_examples=40)
@given(params=SETTINGS, records=RECORDS)
def test_is_asked_on_time_and_remembers_a_window(name, params, records):
    state, decisions = play(name, params, records, num_clients=100)
    every, window = params["update_every"], params["window"]
    assert len(decisions) == sum(number % every == 0 for number in range(6, len(records) + 1))
    assert state.num_commits == len(records)
    assert [id(kept) for kept in state.commits] == [id(kept) for kept in records[-window:]]


@pytest.mark.parametrize("name", CONTROLLERS.names())
@given(records=RECORDS)
def test_same_commits_give_the_same_decisions(name, records):
    assert play(name, {}, records, num_clients=50) == play(name, {}, records, num_clients=50)


@pytest.mark.parametrize("name", CONTROLLERS.names())
def test_has_a_summary(name):
    assert len(CONTROLLERS.entry(name).summary) > 10
