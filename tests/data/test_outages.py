"""Lists of outages: what is written reads back as the same trace."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxctl.data.traces import read_trace, write_outages
from fluxctl.errors import ConfigError
from fluxctl.types import NS_PER_S, Availability
from fluxctl.world.availability import Exhaustion, RecordedTrace, Timeline

TRAIN, GONE = Availability.AVL_TRAIN, Availability.UN_AVL


def trace_of(changes, end=100):
    made = {
        client: Timeline.of([(t * NS_PER_S, state) for t, state in own], end * NS_PER_S, Exhaustion.WRAP)
        for client, own in enumerate(changes)
    }
    return made, RecordedTrace.of(made)


def test_lines_of_a_known_trace(tmp_path):
    made, trace = trace_of([[(0, TRAIN), (10, GONE), (30, TRAIN)], [(0, TRAIN)]])
    path = tmp_path / "o.csv"
    assert write_outages(path, trace, made, 100 * NS_PER_S) == 3
    assert path.read_text() == "client,start_s,duration_s\n0,10,20\n0,100,0\n1,100,0\n"


CHANGES = st.lists(
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from([TRAIN, GONE])), max_size=8).map(sorted),
    min_size=1,
    max_size=3,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES, st.sampled_from(["o.csv", "o.jsonl"]))
def test_round_trip(tmp_path, changes, name):
    made, trace = trace_of(changes)
    write_outages(tmp_path / name, trace, made, 100 * NS_PER_S)
    assert read_trace(tmp_path / name) == made


def test_a_third_state_has_no_word(tmp_path):
    made, trace = trace_of([[(0, TRAIN), (10, Availability.AVL_EVAL)]])
    with pytest.raises(ConfigError, match="can only evaluate at 10 s"):
        write_outages(tmp_path / "o.csv", trace, made, 100 * NS_PER_S)
