"""Controllers of K and C against decisions derived by hand."""

import math

import pytest

from fluxctl.errors import ConfigError
from fluxctl.policies.control import CONTROLLERS, CommitRecord, ControlState, ControlView, advance

pytestmark = pytest.mark.feature("B4")


def record(*, iterations=1, variance=0.2, eligible=50.0, staleness=0.0):
    return CommitRecord(iterations, variance, eligible, staleness)


def decide(name, commits, *, goal=10, concurrency=30, num_clients=100, **params):
    view = ControlView(tuple(commits), goal, concurrency, num_clients, var_threshold=0.3)
    decision = CONTROLLERS.build(name, params).decide(view)
    return decision.goal, decision.concurrency, dict(decision.inputs)


class TestIterations:
    @pytest.mark.parametrize(
        ("iterations", "mean", "goal"),
        [((16, 15), 15.5, 12), ((14, 15), 14.5, 8), ((10, 20), 15.0, 10), ((1, 1), 1.0, 8), ((20, 20), 20.0, 12)],
    )
    def test_goal_moves_by_two_around_fifteen_iterations_per_bin(self, iterations, mean, goal):
        commits = [record(iterations=number) for number in iterations]
        assert decide("iterations", commits) == (goal, 30, {"mean_iterations": mean, "target": 15.0})

    @pytest.mark.parametrize(
        ("goal", "iterations", "expected"), [(14, 20, 15), (15, 20, 15), (6, 1, 5), (5, 1, 5), (3, 15, 5)]
    )
    def test_goal_stays_between_5_and_15(self, goal, iterations, expected):
        assert decide("iterations", [record(iterations=iterations)], goal=goal)[0] == expected

    def test_goal_never_exceeds_concurrency(self):
        assert decide("iterations", [record(iterations=20)], goal=11, concurrency=12)[:2] == (12, 12)


class TestVariance:
    """Threshold .3, far below is under half of it."""

    @pytest.mark.parametrize(
        ("variances", "goal"),
        [
            ((0.4, 0.3), 12),  # mean .35
            ((0.3, 0.3), 10),
            ((0.1, 0.2), 10),  # mean .15 is half of it, not below
            ((0.1, 0.1), 8),
            ((0.5, None), 12),  # unknown ones are left out
            ((math.nan, math.inf, 0.1), 8),
        ],
    )
    def test_goal_moves_by_two(self, variances, goal):
        assert decide("variance", [record(variance=value) for value in variances])[0] == goal

    def test_without_a_known_variance_nothing_moves(self):
        answer = decide("variance", [record(variance=None)] * 6)
        assert answer == (10, 30, {"mean_first_variance": None, "var_threshold": 0.3})


class TestEligible:
    @pytest.mark.parametrize(
        ("counts", "expected"),
        [
            ((100, 100), (10, 30)),
            ((60, 100), (8, 24)),  # mean 80
            ((20, 20), (5, 6)),  # K 2 is below its least of 5
            ((10, 10), (5, 5)),  # C 3 as well
            ((1000, 1000), (15, 100)),  # K 100 is above its largest; C 300 above the number of clients
        ],
    )
    def test_goal_is_a_tenth_and_concurrency_three_tenths_of_the_mean(self, counts, expected):
        assert decide("eligible", [record(eligible=count) for count in counts])[:2] == expected

    def test_fractions_can_be_set(self):
        commits = [record(eligible=40.0)]
        assert decide("eligible", commits, goal_frac=0.25, concurrency_frac=0.5)[:2] == (10, 20)

    def test_a_larger_share_for_the_goal_is_refused(self):
        with pytest.raises(ConfigError, match=r"goal_frac \(0.5\) must not exceed concurrency_frac \(0.3\)"):
            CONTROLLERS.build("eligible", {"goal_frac": 0.5})


class TestStaleness:
    @pytest.mark.parametrize(
        ("staleness", "concurrency"),
        [
            ((2.5, 2.5), 27),  # above 2: 30 - 3
            ((2.0, 2.0), 30),
            ((1.0, 1.0), 30),  # half of it, not below
            ((0.5, 1.0), 33),
        ],
    )
    def test_concurrency_moves_by_a_tenth(self, staleness, concurrency):
        commits = [record(staleness=value) for value in staleness]
        assert decide("staleness", commits)[:2] == (10, concurrency)

    @pytest.mark.parametrize(("concurrency", "expected"), [(12, 11), (14, 13), (15, 13), (25, 22), (5, 5)])
    def test_a_tenth_is_rounded_and_at_least_one_client(self, concurrency, expected):
        """1.2 and 1.4 are 1; 1.5 is 2; 2.5 is 3; 5 is the least C."""
        assert decide("staleness", [record(staleness=9.0)], goal=5, concurrency=concurrency)[1] == expected

    def test_goal_goes_down_with_concurrency(self):
        assert decide("staleness", [record(staleness=9.0)], goal=10, concurrency=10)[:2] == (9, 9)


class TestBounds:
    def test_can_be_set(self):
        bounds = {"goal_min": 2, "goal_max": 4, "concurrency_min": 6, "concurrency_max": 8}
        assert decide("iterations", [record(iterations=20)], **bounds)[:2] == (4, 8)
        assert decide("iterations", [record(iterations=1)], goal=1, concurrency=1, **bounds)[:2] == (2, 6)

    def test_a_small_population_overrules_them(self):
        assert decide("iterations", [record()], goal=3, concurrency=3, num_clients=3)[:2] == (3, 3)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"goal_min": 9, "goal_max": 8}, r"goal_min \(9\) must not exceed goal_max \(8\)"),
            ({"concurrency_max": 4}, r"concurrency_min \(5\) must not exceed concurrency_max \(4\)"),
            ({"window": 5}, "parameter 'window'"),
            ({"window": 21}, "parameter 'window'"),
            ({"update_every": 0}, "parameter 'update_every'"),
        ],
    )
    def test_contradictions_are_named(self, params, message):
        with pytest.raises(ConfigError, match=message):
            CONTROLLERS.build("iterations", params)


class TestAdvance:
    def run(self, controller, records, *, goal=10, concurrency=30):
        state, decisions = ControlState(goal, concurrency), {}
        for number, item in enumerate(records, start=1):
            state, decision = advance(controller, state, item, num_clients=100, var_threshold=0.3)
            if decision is not None:
                decisions[number] = (decision.goal, decision.inputs.get("mean_iterations"))
        return state, decisions

    def test_decides_every_so_many_commits_over_the_latest_ones(self):
        """Window 6, every 8 commits: at 8 over commits 3 .. 8, at 16 over 11 .. 16.

        Iterations 1 .. 16: the means are 5.5 and 13.5, both below 15: 10, 8, 6.
        """
        controller = CONTROLLERS.build("iterations", {"update_every": 8, "window": 6})
        state, decisions = self.run(controller, [record(iterations=number) for number in range(1, 17)])
        assert decisions == {8: (8, 5.5), 16: (6, 13.5)}
        assert (state.goal, state.num_commits, len(state.commits)) == (6, 16, 6)

    def test_waits_for_six_commits(self):
        controller = CONTROLLERS.build("iterations", {"update_every": 2})
        _, decisions = self.run(controller, [record(iterations=20)] * 9)
        assert decisions == {6: (12, 20.0), 8: (14, 20.0)}

    def test_a_decision_that_changes_nothing_is_told(self):
        controller = CONTROLLERS.build("iterations", {"update_every": 6})
        _, decisions = self.run(controller, [record(iterations=15)] * 6)
        assert decisions == {6: (10, 15.0)}

    def test_off_leaves_everything_as_configured_whatever_the_bounds_of_others(self):
        start = ControlState(goal=2, concurrency=3)
        state, decision = advance(
            CONTROLLERS.build("off", {}), start, record(iterations=20), num_clients=10, var_threshold=0.3
        )
        assert state == start
        assert decision is None
