"""What a trace is like, from a trace of known content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.types import Availability
from fluxctl.whatif.traces import stays, timeline, trace_stats
from fluxctl.world.availability import AlwaysAvailable, Exhaustion, RecordedTrace, SlotTrace, Timeline

TRAIN, EVAL, GONE = Availability
S = 1_000_000_000


def trace_of(*clients, end=100):
    lines = [Timeline.of([(t * S, state) for t, state in own], end * S, Exhaustion.HOLD) for own in clients]
    return RecordedTrace.of(dict(enumerate(lines)))


KNOWN = trace_of([(0, TRAIN), (20, EVAL), (50, GONE), (60, TRAIN)], [(0, GONE), (90, TRAIN)])


def test_statistics_of_a_known_trace():
    found = trace_stats(KNOWN, 2, 100 * S)
    assert {name: item.share for name, item in found.states.items()} == pytest.approx(
        {"AVL_TRAIN": (20 + 40 + 10) / 200, "AVL_EVAL": 30 / 200, "UN_AVL": (10 + 90) / 200}
    )
    assert found.transitions == (2.0, 1, 3)
    assert found.states["AVL_EVAL"].percentiles_s == (30.0,) * 6
    assert found.states["UN_AVL"].percentiles_s == (10.0,) * 6  # the stay of the second client began before
    assert found.states["AVL_TRAIN"].percentiles_s == ()
    mean, p5, p95, least, most = found.at_once
    assert mean == pytest.approx((90 + 10) / 100, abs=0.01)
    assert (p5, p95, least, most) == (0, 2, 0, 2)


def test_a_span_shorter_than_the_trace_cuts_it():
    found = trace_stats(KNOWN, 1, 30 * S)
    assert found.states["AVL_EVAL"].share == pytest.approx(1 / 3)
    assert found.states["AVL_EVAL"].num_stays == 0


def test_the_timeline_shows_what_fills_most_of_a_cell():
    assert timeline(KNOWN, 0, 100 * S, 10) == "##+++.####"
    assert timeline(KNOWN, 1, 100 * S, 5) == "....#" or timeline(KNOWN, 1, 100 * S, 10) == ".........#"
    assert timeline(AlwaysAvailable(), 0, 7, 20) == "#" * 20  # more cells than nanoseconds


@given(st.integers(0, 30), st.integers(1, 50_000_000_000), st.floats(0.1, 0.9))
def test_stays_cover_the_span_without_gaps(client, until, frac):
    found = list(stays(SlotTrace(3, 600_000_000, frac), client, until))
    assert (found[0].start_ns, found[-1].end_ns) == (0, until)
    for one, other in zip(found, found[1:], strict=False):
        assert one.end_ns == other.start_ns
        assert one.state is not other.state
    assert len(timeline(SlotTrace(3, 600_000_000, frac), client, until, 13)) == 13
