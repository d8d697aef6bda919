"""Oort's rules, formula by formula, against numbers derived by hand; both selectors that use them."""

import math
import time
from collections import Counter

import numpy as np
import pytest

from fluxctl.policies.selectors import SELECTORS, ClientBeliefs, SelectionView
from fluxctl.policies.selectors.oort import OortParams, client_scores, exploration, paced, percentile, race
from fluxctl.world.seeds import stream

pytestmark = pytest.mark.feature("B17")
PARAMS = OortParams()
OLDER = OortParams(clip_percentile=95.0)  # the clip of Oort's asynchronous use
NAN = math.nan


def beliefs(utility, duration_s=None, last_round=None, num_selected=None):
    num = len(utility)
    return ClientBeliefs(
        utility=np.array(utility, dtype=np.float64),
        duration_s=np.array(duration_s if duration_s is not None else [NAN] * num, dtype=np.float64),
        last_round=np.array(last_round if last_round is not None else [1] * num, dtype=np.int64),
        num_selected=np.array(num_selected if num_selected is not None else [0] * num, dtype=np.int64),
        num_commits=np.zeros(num, dtype=np.int64),
    )


def view(known, *, round=2, eligible=None):
    num = len(known.utility)
    ids = np.arange(num) if eligible is None else np.array(eligible, dtype=np.int64)
    return SelectionView(
        round=round,
        num_clients=num,
        num_eligible=len(ids),
        is_eligible=lambda client: client in ids,
        eligible=lambda: ids,
        beliefs=known,
        concurrency=num,
        goal=1,
    )


@pytest.fixture(params=["oort", "async_oort"])
def select(request):
    """Selects with either; nothing in this file is where they differ."""
    return lambda situation, num, **options: select_by(request.param, situation, num, **options)


def select_by(name, situation, num, *, draw=0, state=None, **params):
    selector = SELECTORS.build(name, params)
    source = stream(0, "selection", version=draw)
    return selector.select(situation, num, source, selector.initial_state() if state is None else state)


class TestPercentile:
    @pytest.mark.parametrize(
        ("percent", "expected"),
        # Four values: position int(4 p / 100) of 1 2 3 4, at most the last one.
        [(1, 1.0), (24, 1.0), (25, 2.0), (30, 2.0), (50, 3.0), (74, 3.0), (95, 4.0), (100, 4.0)],
    )
    def test_is_an_order_statistic(self, percent, expected):
        assert percentile(np.array([1.0, 2.0, 3.0, 4.0]), percent) == expected

    def test_does_not_depend_on_the_order_of_clients(self):
        """Pitfall: the preferred duration was taken from an unsorted list."""
        assert percentile(np.array([4.0, 1.0, 3.0, 2.0]), 30) == 2.0

    def test_leaves_unknown_values_out(self):
        assert percentile(np.array([NAN, 5.0, math.inf, 7.0]), 50) == 7.0

    def test_of_nothing_is_unknown(self):
        assert math.isnan(percentile(np.array([NAN]), 50))


class TestScores:
    # exp(10) is 22026.47, so 0.1 ln(22026) = 1 to 2e-6.
    ROUND = 22026

    @pytest.mark.parametrize(
        ("params", "most"),
        # 100 utilities 1 .. 100: position int(100 * .98) = 98 is 99; position int(100 * .95) = 95 is 96.
        [(PARAMS, 99.0), (OLDER, 96.0)],
    )
    def test_utility_is_clipped_at_a_percentile(self, params, most):
        known = beliefs(range(1, 101))
        scores = client_scores(params, known, np.array([0, 94, 95, 99]), 1, NAN)
        assert scores.tolist() == [1.0, 95.0, 96.0, most]

    def test_utility_is_clipped_over_all_known_clients_not_over_the_candidates(self):
        # Position int(21 * .95) = 19 of 1 .. 20 and 1000 is 20, also where 1000 is the only candidate.
        known = beliefs([*range(1, 21), 1000])
        assert client_scores(OLDER, known, np.array([20]), 1, NAN).tolist() == [20.0]

    def test_temporal_term_grows_with_the_round_and_shrinks_with_the_last_one(self):
        """Pitfall: the temporal term was always 0. sqrt(1 / 1) = 1, sqrt(1 / 4) = .5, sqrt(1 / 100) = .1."""
        known = beliefs([0.0, 0.0, 0.0], last_round=[1, 4, 100])
        scores = client_scores(PARAMS, known, np.array([0, 1, 2]), self.ROUND, NAN)
        assert scores == pytest.approx([1.0, 0.5, 0.1], rel=1e-5)

    def test_slow_clients_are_scaled_by_the_square_of_their_slowness(self):
        """D_pref 10: D 10 and 5 are free; 20 gives (10/20)^2 = 1/4; 40 gives 1/16; unknown is free."""
        known = beliefs([8.0] * 5, duration_s=[10, 5, 20, 40, NAN])
        assert client_scores(PARAMS, known, np.arange(5), 1, 10.0).tolist() == [8.0, 8.0, 2.0, 0.5, 8.0]

    def test_the_penalty_covers_the_temporal_term(self):
        known = beliefs([8.0], duration_s=[20], last_round=[4])
        # (8 + .5) / 4
        assert client_scores(PARAMS, known, np.array([0]), self.ROUND, 10.0)[0] == pytest.approx(2.125, rel=1e-5)

    def test_a_client_whose_update_never_arrived_counts_as_from_round_one(self):
        known = beliefs([0.0], last_round=[0])
        assert client_scores(PARAMS, known, np.array([0]), self.ROUND, NAN)[0] == pytest.approx(1.0, rel=1e-5)

    def test_of_nobody_is_empty(self):
        assert client_scores(PARAMS, beliefs([NAN]), np.empty(0, dtype=np.int64), 5, NAN).shape == (0,)


class TestRace:
    def draw(self, scores, num, cut_off=1e-9, times=3000):
        generator = stream(0, "race").generator()
        return Counter(tuple(race(np.array(scores), num, cut_off, generator).tolist()) for _ in range(times))

    def test_one_is_drawn_in_proportion_to_its_score(self):
        """1 : 2 : 3, that is 500 : 1000 : 1500 of 3000; chi-square, 2 degrees of freedom, below 13.8 with p = .999."""
        counts = self.draw([1.0, 2.0, 3.0], 1)
        expected = {(0,): 500, (1,): 1000, (2,): 1500}
        assert sum((counts[key] - want) ** 2 / want for key, want in expected.items()) < 13.8

    def test_without_replacement_the_rest_keeps_its_proportions(self):
        """First 2 (3 of 6), then 1 (2 of the remaining 3): 1/2 * 2/3 = 1/3. First 0, then 1: 1/6 * 2/5 = 1/15."""
        counts = self.draw([1.0, 2.0, 3.0], 2)
        # Standard deviations of the counts: sqrt(3000 * 1/3 * 2/3) = 26 and sqrt(3000 * 1/15 * 14/15) = 14.
        assert counts[(2, 1)] == pytest.approx(1000, abs=4 * 26)
        assert counts[(0, 1)] == pytest.approx(200, abs=4 * 14)

    def test_scores_below_the_cut_off_take_no_part(self):
        """One is wanted, so the last needed score is 100 and the cut-off 95."""
        counts = self.draw([100.0, 96.0, 95.0, 94.0, 10.0], 1, cut_off=0.95, times=300)
        assert set(counts) == {(0,), (1,), (2,)}

    def test_the_cut_off_follows_the_number_wanted(self):
        """Three are wanted, so the last needed score is 50: the cut-off is 47.5."""
        counts = self.draw([100.0, 50.0, 80.0, 48.0, 47.0], 3, cut_off=0.95, times=300)
        assert {position for drawn in counts for position in drawn} == {0, 1, 2, 3}

    def test_zero_scores_are_drawn_uniformly(self):
        counts = self.draw([0.0, 0.0, 0.0], 1)
        assert sum((counts[(k,)] - 1000) ** 2 / 1000 for k in range(3)) < 13.8

    def test_more_wanted_than_have_a_score(self):
        """Pitfall: `choice(p=...)` raises when fewer entries are positive than are drawn. Zeros come last."""
        counts = self.draw([0.0, 5.0, 0.0], 3, times=200)
        assert {drawn[0] for drawn in counts} == {1}
        assert all(sorted(drawn) == [0, 1, 2] for drawn in counts)

    def test_tiny_scores_do_not_overflow(self):
        assert sorted(race(np.array([5e-324, 1.0]), 2, 0.95, stream(0, "x").generator()).tolist()) == [0, 1]


def test_exploration_decays_to_its_floor():
    """.9, .882, .86436, ...; .98^74 * .9 = .2018 and .98^75 * .9 = .1978, which the floor lifts to .2."""
    assert exploration(PARAMS, 1) == 0.9
    assert exploration(PARAMS, 2) == pytest.approx(0.882)
    assert exploration(PARAMS, 3) == pytest.approx(0.86436)
    assert exploration(PARAMS, 75) == pytest.approx(0.2018, abs=1e-4)
    assert exploration(PARAMS, 76) == exploration(PARAMS, 10_000) == 0.2


class TestPacer:
    """At the first selection after a window of 20, its utility sum is compared with that of the window before."""

    def state(self, **changes):
        return {"threshold": 30.0, "window": 0.0, "window_sum": 100.0, "previous_sum": 100.0, **changes}

    @pytest.mark.parametrize(
        ("current", "previous", "threshold"),
        [
            (110.0, 100.0, 35.0),  # 10 % up: level
            (90.0, 100.0, 35.0),  # 10 % down: level
            (111.0, 100.0, 30.0),
            (0.0, 100.0, 30.0),
            (599.0, 100.0, 30.0),
            (600.0, 100.0, 25.0),  # changed by 5 times: back to faster clients
            (100.0, 0.0, 30.0),  # nothing to compare with
            (0.0, 0.0, 30.0),
        ],
    )
    def test_adjusts_the_threshold(self, current, previous, threshold):
        state = paced(PARAMS, self.state(window_sum=current, previous_sum=previous), 21)
        assert state == {"threshold": threshold, "window": 1.0, "window_sum": 0.0, "previous_sum": current}

    def test_waits_for_the_end_of_the_window(self):
        assert paced(PARAMS, self.state(), 20) == self.state()

    @pytest.mark.parametrize(
        ("threshold", "current", "expected"), [(98.0, 100.0, 100.0), (100.0, 100.0, 100.0), (7.0, 900.0, 5.0)]
    )
    def test_stays_within_5_and_100(self, threshold, current, expected):
        assert paced(PARAMS, self.state(threshold=threshold, window_sum=current), 21)["threshold"] == expected

    def test_can_raise_and_lower_over_a_run(self):
        """Pitfall: the pacer could only raise.

        One client of utility 1 makes every window's sum 20: level from the second window on. Utility 10 makes it 200,
        nine times as much as before.
        """
        selector = SELECTORS.build("oort", {})
        state, thresholds = selector.initial_state(), []
        for round in range(1, 102):
            known = beliefs([1.0 if round <= 60 else 10.0])
            answer = selector.select(view(known, round=round), 1, stream(0, "s", version=round), state)
            state = answer.state
            thresholds.append(answer.detail["round_threshold"])
        # The first selection is uniform, so the first window's sum is 19; |20 - 19| is level as well.
        assert thresholds[19::20] == [30.0, 30.0, 35.0, 40.0, 35.0]
        assert thresholds[40] == 35.0
        assert thresholds[80] == 35.0
        assert thresholds[100] == 40.0


class TestSelect:
    def test_explores_and_exploits_in_the_right_numbers(self, select):
        """Ten of 30 at round 2: int(10 * .882) + 1 = 9 explored while 9 are unknown, else all the unknown."""
        known = beliefs([1.0] * 15 + [NAN] * 15)
        answer = select(view(known), 10)
        assert answer.detail["num_explored"] == 9
        assert sum(client >= 15 for client in answer.chosen) == 9
        few = beliefs([1.0] * 27 + [NAN] * 3)
        assert {27, 28, 29} < set(select(view(few), 10).chosen)

    def test_late_rounds_explore_a_fifth(self, select):
        """int(10 * .2) + 1 = 3."""
        answer = select(view(beliefs([1.0] * 15 + [NAN] * 15), round=500), 10)
        assert answer.detail["num_explored"] == 3

    def test_unknown_clients_fill_up_when_known_ones_run_out(self, select):
        answer = select(view(beliefs([1.0] + [NAN] * 9), round=500), 8)
        assert len(set(answer.chosen)) == 8
        assert 0 in answer.chosen

    def test_first_selection_is_uniform(self, select):
        """Utilities that would decide everything later decide nothing at round 1."""
        known = beliefs([1000.0, 0.0, 0.0, 0.0])
        counts = Counter(select(view(known, round=1), 1, draw=draw).chosen for draw in range(800))
        assert sum((counts[(k,)] - 200) ** 2 / 200 for k in range(4)) < 16.3  # 3 degrees of freedom, p = .999

    def test_useful_and_fast_clients_are_preferred(self, select):
        # D_pref is position int(4 * .3) = 1 of 1 1 1 50: 1 s. Client 3 is as useful as client 0 but 50 times slower.
        known = beliefs([10.0, 1.0, 1.0, 10.0], duration_s=[1, 1, 1, 50])
        answer = select(view(known), 1)
        assert answer.chosen == (0,)
        assert answer.detail["preferred_duration_s"] == 1.0

    def test_percentiles_are_over_all_known_clients_not_over_the_idle_ones(self, select):
        """Idle clients are the fast ones: judged among themselves, half of them would be called slow."""
        known = beliefs([1.0] * 10, duration_s=range(1, 11))
        answer = select(view(known, eligible=[0, 1]), 1, round_threshold=50.0)
        assert answer.detail["preferred_duration_s"] == 6.0

    def test_a_loss_of_nan_makes_a_client_unknown_again(self, select):
        answer = select(view(beliefs([NAN, 1.0, 1.0]), round=500), 1)
        assert answer.chosen == (0,)
        assert answer.detail["num_explored"] == 1

    def test_detail_runs_parallel_to_the_chosen(self, select):
        known = beliefs([8.0, 4.0, NAN], duration_s=[10, 20, NAN])
        answer = select(view(known, round=500), 3, round_threshold=1.0, cut_off=0.01)
        detail = {
            client: (score, utility, duration)
            for client, score, utility, duration in zip(
                answer.chosen, *(answer.detail[name] for name in ("score", "utility", "duration_s")), strict=True
            )
        }
        temporal = math.sqrt(0.1 * math.log(500))
        assert detail == {
            0: (pytest.approx(8 + temporal), 8.0, 10.0),
            1: (pytest.approx((4 + temporal) / 4), 4.0, 20.0),
            2: (None, None, None),
        }

    def test_window_sum_takes_up_what_was_exploited(self, select):
        """An open window of 5, and 8 + 4 from the two that were known."""
        state = {"threshold": 30.0, "window": 24.0, "window_sum": 5.0, "previous_sum": 3.0}
        answer = select(view(beliefs([8.0, 4.0, NAN]), round=500), 3, state=state)
        assert answer.state == {**state, "window_sum": 17.0}


class TestBlocklist:
    def test_is_off_by_default(self, select):
        known = beliefs([100.0, 1.0, 1.0, 1.0], num_selected=[10**6, 0, 0, 0])
        assert select(view(known), 1).chosen == (0,)

    def test_the_most_selected_rest_but_no_more_than_the_largest_share(self, select):
        """Ten clients, at most int(.3 * 10) = 3 rest; four are over the limit, the first three of them rest."""
        known = beliefs([9.0] * 4 + [8.9] * 6, num_selected=[9, 9, 9, 9, 0, 0, 0, 0, 0, 0])
        chosen = {
            client for draw in range(40) for client in select(view(known), 1, draw=draw, blocklist_after=5).chosen
        }
        assert {0, 1, 2}.isdisjoint(chosen)
        assert 3 in chosen

    def test_gives_way_when_nobody_else_is_eligible(self, select):
        known = beliefs([1.0] * 10, num_selected=[9] + [0] * 9)
        assert select(view(known, eligible=[0]), 1, blocklist_after=5).chosen == (0,)


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("utility", [0.0, 3.0, NAN])
def test_small_populations_are_chosen_whole_in_every_round(select, num, utility):
    """Pitfall: probabilities that sum to 0 or to nan."""
    for round in (1, 2, 500):
        answer = select(view(beliefs([utility] * num), round=round), 13)
        assert sorted(answer.chosen) == list(range(num))


@pytest.mark.feature("A34")
def test_a_million_clients_are_chosen_from_in_less_than_half_a_second(select):
    """Time of this thread, the best of three, so that a busy machine does not matter."""
    generator = np.random.default_rng(0)
    num = 1_000_000
    known = beliefs(
        np.where(np.arange(num) % 10, generator.exponential(5.0, num), NAN),
        duration_s=generator.uniform(2, 60, num),
        last_round=generator.integers(1, 500, num),
        num_selected=generator.integers(0, 9, num),
    )
    situation = view(known, round=500)
    seconds = []
    for draw in range(3):
        start = time.thread_time()
        answer = select(situation, 100, draw=draw, blocklist_after=8)
        seconds.append(time.thread_time() - start)
        assert len(set(answer.chosen)) == 100
    assert min(seconds) < 0.5


def test_a_synchronous_caller_that_over_commits_gets_what_it_asks_for(select):
    """1.3 K = 13 of 100 for a goal of 10."""
    assert len(select(view(beliefs([1.0] * 100)), 13).chosen) == 13
