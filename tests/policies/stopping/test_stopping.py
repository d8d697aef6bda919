"""Stop rules: each verdict, its numbers, and the order among them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping import EvalPoint, StopConditions, StopMonitor, StopState, replay
from fluxctl.types import Verdict

pytestmark = pytest.mark.feature("A23")


def conditions(budget_s=1e9, chance=0.25, **limits):
    return StopConditions(LimitsConfig(**limits), budget_s, chance)


def point(bins, accuracy=0.5, *, loss=1.0, one_class=False, finite=True, round=0, engine_s=None):
    return EvalPoint(bins, round, float(bins) if engine_s is None else engine_s, accuracy, loss, 0.0, one_class, finite)


def end(settings, *points):
    """Verdict, rule and index of the point that ended the run; None if it goes on."""
    state, index = replay(settings, points)
    return None if state.decision is None else (state.decision.verdict, state.decision.rule, index)


class TestTarget:
    SETTINGS = conditions(target_accuracy=0.8, converge_window=3)

    def run(self, *accuracies, settings=SETTINGS):
        return end(settings, *(point(bins, accuracy) for bins, accuracy in enumerate(accuracies, start=1)))

    def test_needs_the_window_in_a_row(self):
        assert self.run(0.8, 0.9, 0.8) == (Verdict.CONVERGED, "target", 2)
        assert self.run(0.8, 0.9, 0.79, 0.9, 0.9) is None
        assert self.run(0.8, 0.9, 0.79, 0.9, 0.9, 0.9) == (Verdict.CONVERGED, "target", 5)

    def test_reason_names_the_numbers(self):
        state, _ = replay(self.SETTINGS, [point(bins, 0.8) for bins in (1, 2, 3)])
        assert state.decision.reason == "accuracy was at least 0.8 for 3 bins in a row, up to bin 3"

    def test_a_window_of_one_is_the_first_hit(self):
        settings = conditions(target_accuracy=0.8, converge_window=1)
        assert self.run(0.1, 0.8, settings=settings) == (Verdict.CONVERGED, "target", 1)

    def test_the_untrained_model_is_no_bin(self):
        points = [point(bins, 0.9) for bins in (0, 1, 2)]
        assert end(self.SETTINGS, *points) is None
        assert end(self.SETTINGS, *points, point(3, 0.9)) == (Verdict.CONVERGED, "target", 3)

    def test_a_bin_that_is_evaluated_twice_counts_once(self):
        assert end(self.SETTINGS, point(1, 0.9), point(1, 0.9), point(2, 0.9), point(2, 0.9)) is None

    def test_nan_is_not_at_the_target(self):
        assert self.run(0.9, 0.9, math.nan, 0.9, 0.9) is None

    def test_without_a_target_nothing_converges(self):
        assert self.run(*[1.0] * 50, settings=conditions()) is None

    @given(st.lists(st.booleans(), max_size=30), st.integers(1, 5))
    def test_agrees_with_brute_force(self, hits, window):
        settings = conditions(target_accuracy=0.8, converge_window=window)
        first = next((i for i in range(len(hits)) if i + 1 >= window and all(hits[i + 1 - window : i + 1])), None)
        outcome = self.run(*(0.8 if hit else 0.7 for hit in hits), settings=settings)
        assert outcome == (None if first is None else (Verdict.CONVERGED, "target", first))


@pytest.mark.feature("B16")
class TestDivergence:
    SETTINGS = conditions()

    @pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
    def test_a_loss_that_is_not_finite(self, loss):
        assert end(self.SETTINGS, point(0), point(1, loss=loss)) == (Verdict.DIVERGED, "divergence", 1)

    def test_weights_that_are_not_finite(self):
        assert end(self.SETTINGS, point(0, finite=False)) == (Verdict.DIVERGED, "divergence", 0)

    @pytest.mark.parametrize(("loss", "is_over"), [(13.8, False), (14.0, False), (14.1, True)])
    def test_a_loss_beyond_ten_times_the_first(self, loss, is_over):
        outcome = end(self.SETTINGS, point(0, loss=1.4), point(1, loss=0.2), point(2, loss=loss))
        assert outcome == ((Verdict.DIVERGED, "divergence", 2) if is_over else None)

    def test_a_first_loss_of_zero_is_no_measure(self):
        """Pitfall: a relative test against a loss of 0 or less."""
        assert end(self.SETTINGS, point(0, loss=0.0), point(1, loss=0.5)) is None

    def collapse(self, *accuracies, best=0.82, settings=SETTINGS):
        fallen = [point(bins, accuracy, one_class=True) for bins, accuracy in enumerate(accuracies, start=2)]
        return end(settings, point(0, 0.25, one_class=True), point(1, best), *fallen)

    def test_one_class_twice_in_a_row_far_below_the_best(self):
        """Pitfall: a fall to one-class predictions went on unnoticed."""
        assert self.collapse(0.25) is None
        assert self.collapse(0.25, 0.25) == (Verdict.DIVERGED, "divergence", 3)

    def test_the_row_is_broken_by_a_second_class_or_by_recovery(self):
        points = [point(1, 0.82), point(2, 0.25, one_class=True), point(3, 0.25), point(4, 0.25, one_class=True)]
        assert end(self.SETTINGS, *points) is None
        assert self.collapse(0.25, 0.8, 0.25) is None

    def test_an_untrained_head_that_predicts_one_class_is_no_divergence(self):
        assert end(self.SETTINGS, *(point(bins, 0.25, one_class=True) for bins in range(50))) is None

    @pytest.mark.parametrize(
        ("best", "is_over"),
        [(0.34, False), (0.35, True)],  # chance .25 + .10
    )
    def test_only_a_model_that_had_learned_can_collapse(self, best, is_over):
        assert (self.collapse(0.2, 0.2, best=best) is not None) == is_over

    @pytest.mark.parametrize(
        ("best", "fallen", "is_over"),
        [
            (0.82, 0.73, False),
            (0.82, 0.72, True),  # .82 - .72 is .0999... in binary and counts as .10
            (0.42, 0.32, True),  # .42 - .10 is .3199... in binary
        ],
    )
    def test_a_fall_is_a_tenth(self, best, fallen, is_over):
        assert (self.collapse(fallen, fallen, best=best) is not None) == is_over

    def test_can_be_switched_off(self):
        settings = conditions(divergence_guard=False)
        assert end(settings, point(0), point(1, loss=math.nan, finite=False)) is None
        assert self.collapse(0.25, 0.25, settings=settings) is None

    @given(st.lists(st.tuples(st.sampled_from([0.2, 0.3, 0.4, 0.5]), st.booleans()), max_size=20))
    def test_collapse_agrees_with_brute_force(self, history):
        def fallen(index):
            best = max(accuracy for accuracy, _ in history[: index + 1])
            accuracy, one_class = history[index]
            return one_class and best > 0.349 and best - accuracy > 0.099

        first = next((i for i in range(1, len(history)) if fallen(i) and fallen(i - 1)), None)
        points = [point(bins, accuracy, one_class=one) for bins, (accuracy, one) in enumerate(history)]
        assert end(self.SETTINGS, *points) == (None if first is None else (Verdict.DIVERGED, "divergence", first))


class TestBudgets:
    def test_bins(self):
        settings = conditions(max_bins=3)
        assert end(settings, point(0), point(1), point(2)) is None
        assert end(settings, *(point(bins) for bins in range(5))) == (Verdict.COMPLETED, "max_bins", 3)

    def test_rounds(self):
        settings = conditions(max_rounds=2)
        points = [point(bins, round=bins // 10) for bins in range(40)]
        assert end(settings, *points) == (Verdict.COMPLETED, "max_rounds", 20)

    def test_engine_time_at_an_evaluation(self):
        settings = conditions(budget_s=60.0)
        assert end(settings, point(1, engine_s=59.999)) is None
        assert end(settings, point(1, engine_s=60.0)) == (Verdict.COMPLETED, "max_runtime", 0)

    def test_engine_time_between_evaluations(self):
        """A bin that never commits must not outlive the budget."""
        monitor = StopMonitor(conditions(budget_s=60.0))
        assert monitor.observe(point(4, engine_s=50.0)) is None
        assert monitor.check_clock(59.0) is None
        assert monitor.check_clock(61.0).verdict is Verdict.COMPLETED

    @pytest.mark.parametrize("budget", [{"max_bins": 2}, {"max_rounds": 1}, {"budget_s": 2.0}])
    def test_with_a_target_a_used_up_budget_is_a_miss(self, budget):
        settings = conditions(target_accuracy=0.9, **budget)
        state, _ = replay(settings, [point(bins, round=bins // 2) for bins in range(4)])
        assert state.decision.verdict is Verdict.DID_NOT_CONVERGE
        assert state.decision.reason.endswith("before the target was held")

    def test_without_a_single_bin_there_is_no_result(self):
        state = StopState(conditions(budget_s=60.0)).update(point(0)).tick(60.0)
        assert state.decision.verdict is Verdict.NO_ROUNDS
        assert StopState(conditions(budget_s=60.0)).tick(60.0).decision.verdict is Verdict.NO_ROUNDS


def test_divergence_comes_before_target_and_target_before_budgets():
    settings = conditions(target_accuracy=0.8, converge_window=2, max_bins=2, max_rounds=1, budget_s=2.0)
    broken = [point(1, 0.9), point(2, 0.9, loss=math.nan, round=1)]
    assert end(settings, *broken) == (Verdict.DIVERGED, "divergence", 1)
    assert end(settings, point(1, 0.9), point(2, 0.9, round=1)) == (Verdict.CONVERGED, "target", 1)
    assert end(settings, point(1, 0.9), point(2, 0.7, round=1)) == (Verdict.DID_NOT_CONVERGE, "max_bins", 1)


def test_a_decision_stays():
    state = StopState(conditions(max_bins=1)).update(point(1, 0.5))
    assert state.update(point(2, loss=math.nan)) is state
    assert state.tick(1e12) is state


def test_best_is_the_first_of_the_best_sound_evaluations():
    points = [point(0, 0.2), point(1, 0.7), point(2, 0.7), point(3, 0.6)]
    state, _ = replay(conditions(), points)
    assert (state.best, state.last) == (points[1], points[3])
    state, _ = replay(conditions(divergence_guard=False), [point(0, 0.2), point(1, 0.9, loss=math.nan)])
    assert state.best == point(0, 0.2)
