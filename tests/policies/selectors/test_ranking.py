"""The few smallest, against a full sort."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.policies.selectors.ranking import lowest, smallest
from fluxctl.world.seeds import stream

KEYS = st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, math.inf, -math.inf]), max_size=20)


@given(KEYS, st.integers(0, 25), st.randoms(use_true_random=False))
def test_equals_the_head_of_a_full_sort(keys, num, source):
    ties = [float(value) for value in source.sample(range(100), len(keys))]
    expected = sorted(range(len(keys)), key=lambda position: (keys[position], ties[position]))[:num]
    assert smallest(np.array(keys), np.array(ties), num).tolist() == expected


def test_of_three_ones_the_two_with_the_lower_tickets_follow_the_zero():
    # Keys 1 0 1 1, tickets .9 .5 .1 .2: the zero (1), then positions 2 (.1) and 3 (.2).
    assert smallest(np.array([1, 0, 1, 1]), np.array([0.9, 0.5, 0.1, 0.2]), 3).tolist() == [1, 2, 3]


def test_equal_keys_are_ordered_by_the_stream_and_by_nothing_else():
    clients = np.arange(100, 130)
    orders = {tuple(lowest(clients, np.zeros(30), 30, stream(0, "s", version=draw)).tolist()) for draw in range(20)}
    assert len(orders) == 20
    assert all(sorted(order) == list(range(100, 130)) for order in orders)
    assert tuple(lowest(clients, np.zeros(30), 30, stream(0, "s", version=3)).tolist()) in orders
