"""Uniform selection: every eligible client alike, at a cost that does not depend on the population."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from fluxctl.errors import InvariantError
from fluxctl.policies.selectors import SELECTORS, ClientBeliefs, SelectionView
from fluxctl.world.seeds import stream

RANDOM = SELECTORS.build("random", {})


def view(num_clients, eligible, *, counted=None):
    allowed = frozenset(eligible)

    def is_eligible(client):
        if counted is not None:
            counted.append(client)
        return client in allowed

    empty = np.empty(0)
    return SelectionView(
        round=1,
        num_clients=num_clients,
        num_eligible=len(allowed),
        is_eligible=is_eligible,
        eligible=lambda: np.array(sorted(allowed), dtype=np.int64),
        beliefs=ClientBeliefs(empty, empty, empty.astype(int), empty.astype(int), empty.astype(int)),
        concurrency=10,
        goal=10,
    )


def choose(situation, num, draw=0):
    return RANDOM.select(situation, num, stream(0, "selection", version=draw), RANDOM.initial_state()).chosen


@pytest.mark.parametrize(
    ("num_clients", "eligible"),
    [
        pytest.param(5, (0, 1, 3, 4), id="by rejection"),
        pytest.param(20, (2, 5, 11, 19), id="from the list of eligible clients"),
    ],
)
def test_every_ordered_pair_is_equally_likely(num_clients, eligible):
    """Two of four clients: 12 ordered pairs. Chi-square, 11 degrees of freedom, is below 31.3 with p = .999."""
    num_draws = 2400
    counts = Counter(choose(view(num_clients, eligible), 2, draw) for draw in range(num_draws))
    pairs = list(permutations(eligible, 2))
    assert set(counts) == set(pairs)
    expected = num_draws / len(pairs)
    assert sum((counts[pair] - expected) ** 2 / expected for pair in pairs) < 31.3


@pytest.mark.feature("A34")
def test_a_million_clients_cost_as_much_as_a_hundred():
    counted: list[int] = []
    busy = set(range(0, 1_000_000, 4))  # a quarter is busy
    situation = view(1_000_000, frozenset(range(1_000_000)) - busy, counted=counted)
    situation_without_list = SelectionView(
        **{name: getattr(situation, name) for name in SelectionView.__slots__ if name != "eligible"},
        eligible=lambda: pytest.fail("listed all eligible clients"),
    )
    chosen = choose(situation_without_list, 10)
    assert len(set(chosen)) == 10
    assert busy.isdisjoint(chosen)
    assert len(counted) < 60  # 10 / 0.75 draws are expected


def test_ten_of_three_clients_gives_three():
    assert sorted(choose(view(3, (0, 1, 2)), 10)) == [0, 1, 2]


def test_nobody_eligible_gives_nobody():
    assert choose(view(3, ()), 2) == ()


def test_different_streams_choose_differently():
    assert len({choose(view(100, range(100)), 5, draw) for draw in range(20)}) == 20


def test_a_view_that_promises_too_much_is_a_bug_and_no_endless_loop():
    honest = view(10, range(10))
    promising = SelectionView(
        **{name: getattr(honest, name) for name in SelectionView.__slots__ if name != "is_eligible"},
        is_eligible=lambda client: client == 3,
    )
    with pytest.raises(InvariantError, match="10 of 10 clients should be eligible; found 1"):
        choose(promising, 2)
