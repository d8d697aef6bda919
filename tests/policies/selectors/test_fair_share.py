"""The fewest commits first."""

import pytest

from fluxctl.policies.selectors import SELECTORS
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")


def select(view, num, draw=0):
    return SELECTORS.build("fair_share", {}).select(view, num, stream(0, "s", version=draw), {})


def test_those_with_the_fewest_commits_in_order(situation):
    answer = select(situation(5, num_commits=[4, 0, 9, 2, 1]), 3)
    assert answer.chosen == (1, 4, 3)
    assert answer.detail == {"num_commits": [0, 1, 2]}


def test_dispatches_that_were_not_committed_do_not_count(situation):
    assert select(situation(2, num_commits=[1, 2], num_selected=[50, 2]), 1).chosen == (0,)


def test_shares_never_differ_by_more_than_one(situation):
    """Ten clients, three at a time: after 7 cycles 21 updates, two each and one has three."""
    commits = [0] * 10
    for cycle in range(7):
        for client in select(situation(10, num_commits=commits), 3, cycle).chosen:
            commits[client] += 1
        assert max(commits) - min(commits) <= 1
    assert sorted(commits) == [2] * 9 + [3]
