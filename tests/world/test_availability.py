"""Timelines and recorded traces against a scan of every instant."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, InvariantError
from fluxctl.types import Availability
from fluxctl.world.availability import (
    AVAILABLE,
    CODES,
    STATES,
    Exhaustion,
    RecordedTrace,
    TaskKind,
    Timeline,
    eligible_states,
    fraction_available,
    is_eligible,
    require_clients,
)

TRAIN, EVAL, GONE = Availability.AVL_TRAIN, Availability.AVL_EVAL, Availability.UN_AVL
TRAINING = frozenset({TRAIN})


class Scan:
    """The oracle: one state per instant, painted change by change; every question is a walk over instants."""

    def __init__(self, changes, end, exhaustion):
        self.end, self.exhaustion = end, exhaustion
        self.painted = [GONE] * end
        for time, state in changes:
            for instant in range(time, end):
                self.painted[instant] = state

    def state(self, t):
        if t < self.end:
            return self.painted[t]
        return {"wrap": self.painted[t % self.end], "hold": self.painted[-1], "stop": GONE}[self.exhaustion]

    def first(self, start, wanted):
        """A whole period after the later of start and end shows everything that ever happens."""
        for t in range(start, max(start, self.end) + self.end + 2):
            if wanted(t):
                return t
        return None

    def next_change(self, t):
        return self.first(t + 1, lambda later: self.state(later) is not self.state(later - 1))

    def next_available(self, t, eligible):
        return self.first(t, lambda later: self.state(later) in eligible)

    def available(self, t0, t1, eligible):
        return sum(self.state(t) in eligible for t in range(t0, t1))


segments = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(STATES)), max_size=12)
eligible_sets = st.sets(st.sampled_from(STATES)).map(frozenset)
rules = st.sampled_from(list(Exhaustion))


def changes_of(lengths):
    """(length, state) to (start, state); a length of 0 gives two changes at one time."""
    starts = itertools.accumulate((length for length, _ in lengths), initial=0)
    return [(start, state) for start, (_, state) in zip(starts, lengths, strict=False)]


@st.composite
def timelines(draw):
    changes = changes_of(draw(segments))
    end = draw(st.integers(1, 40))
    rule = draw(rules)
    return Timeline.of(changes, end, rule), Scan(changes, end, rule)


@settings(max_examples=400)
@given(timelines(), st.integers(0, 130), st.integers(0, 130), eligible_sets)
def test_every_answer_equals_a_scan(pair, t, span, eligible):
    timeline, scan = pair
    assert timeline.state(t) is scan.state(t)
    assert timeline.next_change(t) == scan.next_change(t)
    assert timeline.next_available(t, eligible) == scan.next_available(t, eligible)
    measured = timeline.available_ns(t + span, eligible) - timeline.available_ns(t, eligible)
    assert measured == scan.available(t, t + span, eligible)


@given(timelines(), st.integers(0, 60), st.integers(10**9, 10**12), eligible_sets)
def test_far_beyond_the_horizon_a_wrapped_trace_repeats_and_others_rest(pair, t, periods, eligible):
    timeline, scan = pair
    shift = periods * timeline.end
    far = t + shift
    if timeline.exhaustion is Exhaustion.WRAP:
        assert timeline.state(far) is scan.state(t)
        change, begin = scan.next_change(t), scan.next_available(t, eligible)
        assert timeline.next_change(far) == (None if change is None else change + shift)
        assert timeline.next_available(far, eligible) == (None if begin is None else begin + shift)
        assert timeline.available_ns(far, eligible) == periods * scan.available(
            0, timeline.end, eligible
        ) + scan.available(0, t, eligible)
    else:
        assert timeline.state(far) is scan.state(timeline.end)
        assert timeline.next_change(far) is None
        assert timeline.next_available(far, eligible) == (far if timeline.state(far) in eligible else None)


@given(st.lists(timelines(), min_size=1, max_size=6), rules, st.integers(1, 40), st.integers(0, 200))
def test_states_of_a_population_equal_those_of_its_clients(pairs, rule, end, t):
    lines = [Timeline.of(zip(line.starts, line.states, strict=True), end, rule) for line, _ in pairs]
    trace = RecordedTrace.of(dict(enumerate(lines)))
    codes = trace.states(len(lines), t)
    assert codes.dtype == np.int8
    assert codes.tolist() == [CODES[trace.state(client, t)] for client in range(len(lines))]


@pytest.mark.parametrize("order", list(itertools.permutations([0, 205, 305])))
def test_answers_do_not_depend_on_what_was_asked_before(order):
    """Active from 0, 100, 200, inactive from 10, 110, 210, period 300: a cursor that only moves on gets 205 or 305
    wrong, depending on which was asked first. All three are active times (305 is 5)."""
    changes = sorted([(t, TRAIN) for t in (0, 100, 200)] + [(t, GONE) for t in (10, 110, 210)])
    trace = RecordedTrace.of({0: Timeline.of(changes, 300, Exhaustion.WRAP)})
    answers = {t: (trace.state(0, t), trace.next_change(0, t), trace.next_available(0, t, TRAINING)) for t in order}
    assert answers == {0: (TRAIN, 10, 0), 205: (TRAIN, 210, 205), 305: (TRAIN, 310, 305)}
    asked = {t: trace.next_available(0, t, TRAINING) for t in [10, 211, 150, 10, 511]}
    assert asked == {10: 100, 211: 300, 150: 200, 511: 600}


def test_segments_without_duration_leave_no_trace():
    """At 5 the client passes through two states in no time; at 9 it leaves and returns in no time."""
    changes = [(0, TRAIN), (5, GONE), (5, EVAL), (9, TRAIN), (9, EVAL), (12, GONE), (12, TRAIN)]
    line = Timeline.of(changes, 20, Exhaustion.HOLD)
    assert line.starts == (0, 5, 12)
    assert line.states == (TRAIN, EVAL, TRAIN)


def test_a_client_that_is_never_available_says_so_under_every_rule():
    for rule in Exhaustion:
        line = Timeline.of([(3, GONE)], 10, rule)
        for t in (0, 9, 10, 10**15):
            assert line.next_available(t, AVAILABLE) is None
            assert line.next_change(t) is None


def test_decreasing_times_and_empty_horizons_are_refused():
    with pytest.raises(InvariantError, match="4 follows 5"):
        Timeline.of([(5, TRAIN), (4, GONE)], 10, Exhaustion.WRAP)
    with pytest.raises(InvariantError, match="must last"):
        Timeline.of([], 0, Exhaustion.WRAP)


def test_a_share_of_time_is_over_clients_and_time():
    """Client 0 is available for 4 of 10, client 1 for 10 of 10, so together 14 of 20; from 2 to 7: 2 + 5 of 10."""
    lines = {
        0: Timeline.of([(0, TRAIN), (4, GONE)], 10, Exhaustion.WRAP),
        1: Timeline.of([(0, TRAIN)], 10, Exhaustion.WRAP),
    }
    trace = RecordedTrace.of(lines)
    assert fraction_available(trace, [0, 1], 0, 10, TRAINING) == 0.7
    assert fraction_available(trace, [0, 1], 2, 7, TRAINING) == 0.7
    assert fraction_available(trace, [0], 10**15, 10**15 + 10, TRAINING) == 0.4
    with pytest.raises(InvariantError, match="empty"):
        fraction_available(trace, [0], 5, 5, TRAINING)


def test_eligible_states_of_each_task():
    assert eligible_states(TaskKind.FORWARD_GRADIENT) == {TRAIN, EVAL}
    assert eligible_states(TaskKind.BACK_PROPAGATION) == {TRAIN}
    assert eligible_states(TaskKind.EVALUATION) == {TRAIN, EVAL}
    codes = np.array([CODES[state] for state in (TRAIN, EVAL, GONE)], dtype=np.int8)
    assert is_eligible(codes, eligible_states(TaskKind.BACK_PROPAGATION)).tolist() == [True, False, False]


def test_clients_that_a_trace_lacks_are_named():
    line = Timeline.of([(0, TRAIN)], 10, Exhaustion.WRAP)
    require_clients({0: line, 1: line}, 2, "a.csv")
    with pytest.raises(ConfigError, match=r"a\.csv has no line for client 1$"):
        require_clients({0: line}, 2, "a.csv")
    with pytest.raises(ConfigError, match=r"7 clients \(1, 3, 4, 5, 6, \.\.\.\)"):
        require_clients({0: line, 2: line}, 9, "a.csv")
    with pytest.raises(ConfigError, match="no line for client 8"):
        RecordedTrace.of({0: line}).state(8, 0)
