"""Beliefs against an aggregator that listens to every message, instant by instant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.types import NS_PER_S, Availability
from fluxctl.world.availability import (
    CODES,
    STATES,
    AlwaysAvailable,
    Exhaustion,
    RecordedTrace,
    SlotTrace,
    Timeline,
    TraceSpec,
    build_trace,
)
from fluxctl.world.knowledge import Heartbeat, KnowledgeParams, Notified, Unaware, build_knowledge

TRAIN, EVAL, GONE = Availability.AVL_TRAIN, Availability.AVL_EVAL, Availability.UN_AVL
BOTH = frozenset({TRAIN, EVAL})


@st.composite
def traces(draw):
    lengths = draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(STATES)), min_size=1, max_size=10))
    changes, now = [], 0
    for length, state in lengths:
        changes.append((now, state))
        now += length
    line = Timeline.of(changes, draw(st.integers(1, 60)), draw(st.sampled_from(list(Exhaustion))))
    return RecordedTrace.of({0: line})


def listen_to_reports(trace, latency, num_states, t):
    """The last report that has arrived; the registration at 0 arrives at once."""
    heard = trace.state(0, 0)
    for sent in range(1, t - latency + 1):
        if trace.state(0, sent) is not trace.state(0, sent - 1):
            heard = trace.state(0, sent)
    return GONE if num_states == 2 and heard is EVAL else heard


def listen_to_pings(trace, every, misses, t):
    """Hear every ping up to t; the last one counts until it is too old."""
    heard, at = GONE, None
    for sent in range(0, t + 1, every):
        if trace.state(0, sent) is not GONE:
            heard, at = trace.state(0, sent), sent
    return heard if at is not None and t - at < misses * every else GONE


def check(knowledge, listen, t, until, eligible):
    beliefs = {later: listen(later) for later in range(t, max(t, until) + 1)}
    assert knowledge.believed_state(0, t) is beliefs[t]
    assert knowledge.believed_states(1, t).tolist() == [CODES[beliefs[t]]]
    changes = [later for later in range(t + 1, until + 1) if beliefs[later] is not beliefs[t]]
    assert knowledge.next_belief_change(0, t, until) == (changes[0] if changes else None)
    begins = [later for later in range(t, until + 1) if beliefs[later] in eligible]
    assert knowledge.believed_next_available(0, t, eligible, until) == (begins[0] if begins else None)


times = st.integers(0, 90)
eligible_sets = st.sampled_from([BOTH, frozenset({TRAIN})])


@given(traces(), st.integers(0, 20), st.sampled_from([2, 3]), times, st.integers(0, 60), eligible_sets)
def test_reports_are_believed_a_latency_late(trace, latency, num_states, t, span, eligible):
    knowledge = Notified(trace, latency, num_states)
    check(knowledge, lambda later: listen_to_reports(trace, latency, num_states, later), t, t + span, eligible)


@given(traces(), st.integers(1, 12), st.integers(1, 4), times, st.integers(0, 60), eligible_sets)
def test_pings_are_believed_until_they_are_too_old(trace, every, misses, t, span, eligible):
    knowledge = Heartbeat(trace, every, misses)
    check(knowledge, lambda later: listen_to_pings(trace, every, misses, later), t, t + span, eligible)


@given(traces(), times, st.integers(0, 60), eligible_sets)
def test_the_oracle_believes_the_truth(trace, t, span, eligible):
    oracle = build_knowledge(KnowledgeParams(policy="oracular", notify_latency_s=5.0, num_states=2), trace)
    check(oracle, lambda later: trace.state(0, later), t, t + span, eligible)


def test_the_unaware_see_everyone():
    knowledge = build_knowledge(KnowledgeParams(), SlotTrace(0, 100, 0.99))
    assert isinstance(knowledge, Unaware)
    check(knowledge, lambda later: TRAIN, 5, 50, BOTH)
    assert knowledge.believed_states(4, 0).tolist() == [CODES[TRAIN]] * 4
    assert knowledge.believed_next_available(0, 5, BOTH, until=4) is None


def test_a_heartbeat_is_lost_after_the_allowed_misses():
    """Available in [0, 65) and from 130 on, pings each 30 s, 3 misses: the last ping is at 60, so the client is
    believed alive until 150, although it left at 65, and it pings again at 150: it was never believed gone.
    With 2 misses it is gone from 120 to 150."""
    changes = [(0, TRAIN), (65 * NS_PER_S, GONE), (130 * NS_PER_S, EVAL)]
    trace = RecordedTrace.of({0: Timeline.of(changes, 1000 * NS_PER_S, Exhaustion.HOLD)})

    def beliefs(misses):
        params = KnowledgeParams(policy="heartbeat", heartbeat_every_s=30.0, allowed_misses=misses)
        knowledge = build_knowledge(params, trace)
        return {t: knowledge.believed_state(0, t * NS_PER_S) for t in (0, 64, 119, 120, 149, 150)}

    assert beliefs(3) == {0: TRAIN, 64: TRAIN, 119: TRAIN, 120: TRAIN, 149: TRAIN, 150: EVAL}
    assert beliefs(2) == {0: TRAIN, 64: TRAIN, 119: TRAIN, 120: GONE, 149: GONE, 150: EVAL}


def test_flicker_between_pings_is_never_heard_and_asking_for_it_ends():
    """Available for 10 of every 60 s, never at a multiple of 30 s."""
    changes = [(0, GONE), (10, TRAIN), (20, GONE)]
    trace = RecordedTrace.of({0: Timeline.of(changes, 60, Exhaustion.WRAP)})
    assert Heartbeat(trace, 30, 3).believed_next_available(0, 0, BOTH, until=60_000) is None


@pytest.mark.parametrize("policy", ["unaware", "oracular", "client_notify", "heartbeat"])
@pytest.mark.parametrize(
    "kind", [{"kind": "slots", "unavailable_frac": 0.4}, {"kind": "mobiperf", "variant": "3st_50"}]
)
def test_beliefs_about_a_population_equal_those_about_its_clients(policy, kind):
    trace = build_trace(TraceSpec(description="a trace", **kind), 1)
    params = KnowledgeParams(policy=policy, notify_latency_s=45.0, num_states=2)
    knowledge = build_knowledge(params, trace)
    for t in (0, 44 * NS_PER_S, 10**13, 7 * 10**14):
        together = knowledge.believed_states(40, t)
        assert together.dtype == np.int8
        assert together.tolist() == [CODES[knowledge.believed_state(client, t)] for client in range(40)]


def test_two_states_fold_those_who_can_only_evaluate():
    trace = RecordedTrace.of({0: Timeline.of([(0, EVAL), (50, TRAIN)], 100, Exhaustion.WRAP)})
    two, three = (build_knowledge(KnowledgeParams(policy="client_notify", num_states=num), trace) for num in (2, 3))
    assert (two.believed_state(0, 10), three.believed_state(0, 10)) == (GONE, EVAL)
    assert two.believed_next_available(0, 10, BOTH, until=99) == 50
    assert three.believed_next_available(0, 10, BOTH, until=99) == 10


def test_knowledge_of_somebody_who_never_changes_is_constant():
    for knowledge in (Notified(AlwaysAvailable(), 7, 3), Heartbeat(AlwaysAvailable(), 30, 3)):
        assert knowledge.believed_state(9, 0) is TRAIN
        assert knowledge.next_belief_change(9, 0, until=10**18) is None
