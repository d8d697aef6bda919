"""When a client is busy: from its dispatch to its commit, or until it is given up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.telemetry.builders import TableBuilder
from fluxctl.telemetry.residence import ABANDON, stays_in_flight

S = 1_000_000_000


def stays(rows, given_up=()):
    builder = TableBuilder("abandon", ABANDON)
    for client, dispatch_ns, t_ns in given_up:
        builder.add({"event": "abandon", "client": client, "dispatch_ns": dispatch_ns, "t_ns": t_ns})
    clients, starts, ends = zip(*rows, strict=True) if rows else ((), (), ())
    seconds = [np.array(times, dtype=np.float64) for times in (starts, ends)]
    return stays_in_flight(np.array(clients, dtype=np.int64), *seconds, builder.table())


def test_stays_that_meet_do_not_overlap_and_one_nanosecond_does():
    assert len(stays([]).overlaps) == 0
    assert stays([(3, 0.0, 2.5), (3, 2.5, 4.0)]).overlaps.tolist() == []
    assert stays([(3, 2.499999999, 4.0), (3, 0.0, 2.5)]).overlaps.tolist() == [1]
    assert stays([(3, 0.0, 2.5), (4, 1.0, 4.0)]).overlaps.tolist() == []


@pytest.mark.parametrize(("at_ns", "num"), [(1 * S, 0), (2 * S, 0), (2 * S + 1, 1), (9 * S, 1)])
def test_a_stay_ends_when_its_client_is_given_up(at_ns, num):
    late = [(3, 0.5, 5.0), (3, 2.0, 3.0)]
    assert len(stays(late).overlaps) == 1
    assert len(stays(late, [(3, S // 2, at_ns)]).overlaps) == num


def test_being_given_up_counts_for_that_dispatch_of_that_client_only():
    late = [(3, 0.5, 5.0), (3, 2.0, 3.0)]
    assert len(stays(late, [(4, S // 2, S), (3, 0, S)]).overlaps) == 1
    assert stays(late, [(3, S // 2, 9 * S), (3, S // 2, S)]).ends_ns.tolist() == [S, 3 * S]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 10)), max_size=12))
def test_consecutive_stays_are_judged_as_by_hand(rows):
    made = [(client, float(start), float(start + length)) for client, start, length in rows]
    found = stays(made)
    by_client = {}
    for client, start, end in sorted(made, key=lambda row: row[:2]):
        by_client.setdefault(client, []).append((start, end))
    num_pairs = sum(len(of) - 1 for of in by_client.values())
    assert found.num_pairs == num_pairs
    if len({row[:2] for row in made}) == len(made):  # else which of two that begin together comes first is open
        worst = sum(b[0] < a[1] for of in by_client.values() for a, b in zip(of, of[1:], strict=False))
        assert len(found.overlaps) == worst
