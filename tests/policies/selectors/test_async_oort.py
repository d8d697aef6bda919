"""What async Oort adds to Oort: another clip, and the evaluation hand."""

import pytest

from fluxctl.policies.selectors import SELECTORS, EvaluatingSelector
from fluxctl.policies.selectors.evaluation import evaluation_hand, num_slots
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")
SOURCE = stream(0, "evaluation")


def test_clips_at_the_95th_percentile_and_oort_at_the_98th(situation):
    # 100 utilities 1 .. 100; client 99 is alone: position int(100 * .95) = 95 is 96, int(100 * .98) = 98 is 99. The
    # temporal term is sqrt(.1 ln 2 / 1) = .26328.
    view = situation(100, utility=range(1, 101), last_round=[1] * 100, eligible=[99])
    scores = {
        name: SELECTORS.build(name, {}).select(view, 1, SOURCE, SELECTORS.build(name, {}).initial_state())
        for name in ("oort", "async_oort")
    }
    assert scores["async_oort"].detail["score"] == [pytest.approx(96.26328, abs=1e-5)]
    assert scores["oort"].detail["score"] == [pytest.approx(99.26328, abs=1e-5)]


@pytest.mark.parametrize(
    ("factor", "goal", "expected"),
    # .1 * 30 is 3.0000000000000004 and .29 * 100 is 28.999999999999996: 3 and 29 all the same.
    [(0.0, 10, 0), (1.0, 10, 10), (0.5, 3, 1), (0.1, 30, 3), (0.29, 100, 29), (0.09, 10, 0)],
)
def test_slots_are_a_multiple_of_the_goal(factor, goal, expected):
    assert num_slots(factor, goal) == expected


class TestHand:
    # At selection 100 with a rest of 35, measurements of 65 .. 99 are fresh and 64 is due.
    def test_takes_those_measured_before_but_not_lately_oldest_first(self, situation):
        view = situation(6, last_evaluated=[0, 64, 65, 30, 99, 50], round=100)
        assert evaluation_hand(view, 10, 35, SOURCE) == (3, 5, 1)

    def test_takes_no_more_than_there_are_slots(self, situation):
        view = situation(6, last_evaluated=[0, 64, 65, 30, 99, 50], round=100)
        assert evaluation_hand(view, 2, 35, SOURCE) == (3, 5)
        assert evaluation_hand(view, 0, 35, SOURCE) == evaluation_hand(view, -3, 35, SOURCE) == ()

    def test_takes_only_the_eligible(self, situation):
        view = situation(6, last_evaluated=[0, 64, 65, 30, 99, 50], round=100, eligible=[0, 1, 5])
        assert evaluation_hand(view, 10, 35, SOURCE) == (5, 1)

    def test_an_update_is_a_measurement_where_nothing_else_is_recorded(self, situation):
        assert evaluation_hand(situation(3, last_round=[10, 90, 0], round=100), 3, 35, SOURCE) == (0,)

    def test_is_off_by_default(self, situation):
        selector = SELECTORS.build("async_oort", {})
        assert isinstance(selector, EvaluatingSelector)
        assert selector.select_evaluations(situation(2, last_evaluated=[1, 1], round=100), 0, SOURCE) == ()

    def test_fills_the_slots_that_are_free(self, situation):
        """Half of K = 4 is 2 slots, one of which is taken."""
        selector = SELECTORS.build("async_oort", {"eval_goal_factor": 0.5})
        view = situation(3, last_evaluated=[3, 1, 2], round=100, goal=4)
        assert selector.select_evaluations(view, 0, SOURCE) == (1, 2)
        assert selector.select_evaluations(view, 1, SOURCE) == (1,)
        assert selector.select_evaluations(view, 2, SOURCE) == ()

    def test_other_selectors_have_none(self):
        having = {name for name in SELECTORS.names() if isinstance(SELECTORS.build(name, {}), EvaluatingSelector)}
        assert having == {"async_oort"}
