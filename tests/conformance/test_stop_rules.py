"""What every stop rule must do, over everything registered."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping import STOP_RULES, EvalPoint, StopConditions, StopMonitor, StopState, replay
from fluxctl.policies.stopping.base import stop_rule

pytestmark = pytest.mark.feature("A23")

CONDITIONS = st.builds(
    StopConditions,
    st.builds(
        LimitsConfig,
        max_bins=st.none() | st.integers(1, 12),
        max_rounds=st.none() | st.integers(1, 4),
        target_accuracy=st.none() | st.just(0.6),
        converge_window=st.integers(1, 4),
        divergence_guard=st.booleans(),
    ),
    st.floats(1, 20),
    st.just(0.25),
)
READINGS = st.tuples(
    st.sampled_from([0.1, 0.4, 0.6, 0.8, math.nan]), st.sampled_from([0.0, 1.0, 11.0, math.nan]), st.booleans()
)
RUNS = st.lists(READINGS, max_size=15).map(
    lambda readings: [
        EvalPoint(bins, bins // 4, float(bins), accuracy, loss, 0.0, one_class, finite=True)
        for bins, (accuracy, loss, one_class) in enumerate(readings)
    ]
)


@settings(max_examples=150)
@given(CONDITIONS, RUNS)
def test_a_live_run_and_its_replay_end_at_the_same_point(conditions, points):
    monitor, live = StopMonitor(conditions), None
    for index, point in enumerate(points):
        if monitor.observe(point) is not None:
            live = index
            break
    state, replayed = replay(conditions, points)
    assert (monitor.state, live) == (state, replayed)
    assert (state.decision is None) == (replayed is None)


@given(CONDITIONS, RUNS)
def test_a_later_part_of_the_run_changes_no_earlier_decision(conditions, points):
    _, end = replay(conditions, points)
    for length in range(len(points) + 1):
        _, end_of_part = replay(conditions, points[:length])
        assert end_of_part == (end if end is not None and end < length else None)


@pytest.mark.parametrize("name", sorted(STOP_RULES))
def test_memory_is_a_few_numbers_however_long_the_run(name):
    """The cost of an evaluation must not grow with those before it."""
    state = StopState(StopConditions(LimitsConfig(target_accuracy=0.9), 1e9, 0.25))
    sizes = []
    for bins in range(300):
        state = state.update(EvalPoint(bins, 0, 0.0, 0.5, 1.0, 0.0, one_class=False, finite=True))
        sizes.append(len(json.dumps(dict(state.memories[name]), allow_nan=False)))
    assert state.decision is None
    assert max(sizes) < 200


@given(CONDITIONS, RUNS)
def test_a_state_goes_through_a_file_unchanged(conditions, points):
    direct = stored = StopState(conditions)
    for point in points:
        direct, stored = direct.update(point), stored.update(point)
        memories = json.loads(json.dumps({name: dict(memory) for name, memory in stored.memories.items()}))
        stored = StopState(conditions, memories, stored.last, stored.best, stored.decision)
        assert stored == direct


def test_names_and_places_are_unique():
    orders = [rule.order for rule in STOP_RULES.values()]
    assert len(set(orders)) == len(orders)
    for name, order in (("target", 1), ("another", orders[0])):
        with pytest.raises(ValueError, match="registered twice"):
            stop_rule(name, order=order)
