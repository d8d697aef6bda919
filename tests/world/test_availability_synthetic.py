"""Always available, and a coin for each client and slot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError
from fluxctl.types import NS_PER_S, Availability
from fluxctl.world.availability import (
    CODES,
    AlwaysAvailable,
    Exhaustion,
    SlotTrace,
    Timeline,
    TraceSpec,
    build_trace,
    fraction_available,
)

TRAIN, GONE = Availability.AVL_TRAIN, Availability.UN_AVL
TRAINING = frozenset({TRAIN})
SLOT = 600 * NS_PER_S


def test_always_available_is_always_available():
    trace = AlwaysAvailable()
    assert trace.state(10**6, 10**20) is TRAIN
    assert trace.next_change(0, 0) is None
    assert trace.next_available(3, 17, TRAINING) == 17
    assert trace.next_available(3, 17, frozenset({GONE})) is None
    assert trace.available_ns(0, 5, 12, TRAINING) == 7
    assert trace.states(3, 0).tolist() == [CODES[TRAIN]] * 3


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_the_unavailable_share_is_the_true_one(share, seed):
    """100 clients x 300 slots: the standard error is at most 0.003; upstream's `20 %` was 10.8 %."""
    trace = SlotTrace(seed, SLOT, share)
    away = np.array([trace.states(100, slot * SLOT) == CODES[GONE] for slot in range(300)])
    assert away.mean() == pytest.approx(share, abs=0.01)
    # Clients and slots are independent: shares spread as binomials do, and neighbours do not agree more than by chance.
    for axis, count in ((0, 300), (1, 100)):
        spread = away.mean(axis=axis).std() / np.sqrt(share * (1 - share) / count)
        assert 0.8 < spread < 1.2
    assert abs(np.corrcoef(away[1:].ravel(), away[:-1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(away[:, 1:].ravel(), away[:, :-1].ravel())[0, 1]) < 0.02
    assert 1 - fraction_available(trace, range(20), 0, 300 * SLOT, TRAINING) == pytest.approx(
        away[:, :20].mean(), abs=1e-12
    )


@given(
    clients=st.integers(1, 2100),
    slot=st.integers(0, 2**40),
    offset=st.integers(0, 99),
    share=st.sampled_from([0.0, 0.2, 0.5, 0.99]),
    seed=st.integers(0, 5),
)
def test_one_client_at_a_time_sees_what_the_population_sees(clients, slot, offset, share, seed):
    trace = SlotTrace(seed, 100, share)
    t = slot * 100 + offset
    together = trace.states(clients, t)
    for client in {0, clients // 2, clients - 1}:
        assert CODES[trace.state(client, t)] == together[client]


@given(client=st.integers(0, 10**6), t=st.integers(0, 5000), span=st.integers(1, 2000), share=st.floats(0.1, 0.9))
def test_slot_answers_equal_a_scan(client, t, span, share):
    trace = SlotTrace(0, 100, share)
    change = trace.next_change(client, t)
    assert change is not None
    assert change % 100 == 0
    assert change > t
    assert all(trace.state(client, later) is trace.state(client, t) for later in range(t, change, 50))
    assert trace.state(client, change) is not trace.state(client, t)
    begin = trace.next_available(client, t, TRAINING)
    assert begin == (t if trace.state(client, t) is TRAIN else change)
    scanned = sum(trace.state(client, later) is TRAIN for later in range(t, t + span))
    assert trace.available_ns(client, t, t + span, TRAINING) == scanned


def test_impossible_wishes_end_at_once():
    assert SlotTrace(0, 100, 0.5).next_available(0, 0, frozenset({Availability.AVL_EVAL})) in {None}
    assert SlotTrace(0, 100, 0.0).next_change(0, 0) is None
    assert SlotTrace(0, 100, 0.0).next_available(0, 0, frozenset({GONE})) is None


def test_a_million_clients_cost_one_draw():
    states = SlotTrace(0, SLOT, 0.5).states(1_000_000, 10**18)
    assert (states == CODES[GONE]).mean() == pytest.approx(0.5, abs=0.002)


def test_descriptions_build_their_traces():
    def spec(**fields):
        return TraceSpec(description="a trace", **fields)

    assert isinstance(build_trace(spec(kind="always"), 0), AlwaysAvailable)
    assert isinstance(build_trace(spec(kind="slots"), 0), AlwaysAvailable)
    assert build_trace(spec(kind="slots", unavailable_frac=0.2), 3) == SlotTrace(3, SLOT, 0.2)
    line = Timeline.of([(0, TRAIN)], 10, Exhaustion.STOP)
    assert build_trace(spec(kind="file", path="a.csv"), 0, {0: line}).state(0, 10) is GONE
    with pytest.raises(ConfigError, match="no client"):
        build_trace(spec(kind="file", path="a.csv"), 0, {})


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "mobiperf"},
        {"kind": "always", "variant": "2st"},
        {"kind": "file"},
        {"kind": "slots", "path": "a.csv"},
        {"kind": "slots", "unavailable_frac": 1.0},
        {"kind": "slots", "slot_s": 0.0},
        {"kind": "dice"},
    ],
)
def test_descriptions_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="validation error"):
        TraceSpec(description="a trace", **fields)
