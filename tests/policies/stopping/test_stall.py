"""The stall rule: what counts as progress, when the window is over, and what must not fool it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping import EvalPoint, StopConditions, StopState, replay
from fluxctl.policies.stopping.stall import last_progress_s, milestones
from fluxctl.types import Verdict

pytestmark = [pytest.mark.feature("A23"), pytest.mark.feature("E12")]
WINDOW_S = 100.0


def conditions(on="either", window_s=WINDOW_S, **limits):
    limits = LimitsConfig(stall_on=on, stall_window_s=window_s, divergence_guard=False, **limits)
    return StopConditions(limits, 1e9, 0.25)


def point(at_s, accuracy=0.5, loss=1.0, finite=True):
    return EvalPoint(int(at_s), 0, float(at_s), accuracy, loss, 0.0, one_class=False, finite=finite)


def end(settings, *points):
    """Verdict and engine time of the end; None if it goes on."""
    state, index = replay(settings, points)
    return None if index is None else (state.decision.verdict, points[index].engine_s)


STALLED = Verdict.STALLED


def test_it_is_off_by_default():
    assert LimitsConfig().stall_window_s is None
    assert end(conditions(window_s=None), *(point(t) for t in range(0, 10_000, 50))) is None


def test_a_flat_run_ends_with_the_window():
    assert end(conditions(), *(point(t) for t in range(0, 1000, 30))) == (STALLED, 120.0)
    assert end(conditions(), point(0), point(99.9)) is None
    assert end(conditions(), point(0), point(100.0)) == (STALLED, 100.0)


@pytest.mark.parametrize(
    ("on", "accuracy", "loss", "is_progress"),
    [
        ("acc", 0.51, 1.0, True),
        ("acc", 0.509, 0.1, False),
        ("loss", 0.9, 0.995, False),
        ("loss", 0.5, 0.99, True),
        ("either", 0.51, 1.0, True),
        ("either", 0.5, 0.99, True),
        ("either", 0.509, 0.995, False),
    ],
)
def test_what_counts_as_progress(on, accuracy, loss, is_progress):
    outcome = end(conditions(on), point(0), point(60, accuracy, loss), point(110, accuracy, loss))
    assert outcome == (None if is_progress else (STALLED, 110.0))


def test_progress_just_in_time_counts():
    """The evaluation that ends the window is looked at before the clock."""
    assert end(conditions("acc"), point(0), point(150, 0.6)) is None


def test_a_dip_and_its_recovery_are_no_progress():
    """Pitfall: one noisy evaluation reset the clock."""
    dip = [point(0, 0.7, 0.5), point(50, 0.4, 2.0), point(90, 0.705, 0.4999), point(100, 0.7, 0.5)]
    assert end(conditions("either"), *dip) == (STALLED, 100.0)


def test_small_gains_count_once_they_add_up_to_the_delta():
    creeping = [point(30 * step, 0.5 + 0.004 * step) for step in range(40)]
    assert end(conditions("acc"), *creeping) is None  # .012 in 90 s
    slower = [point(30 * step, 0.5 + 0.002 * step) for step in range(40)]
    assert end(conditions("acc"), *slower) == (STALLED, 120.0)


def test_a_falling_loss_keeps_a_run_whose_accuracy_stands_still():
    """Pitfall: stall judged on accuracy alone killed a run that was learning."""
    points = [point(40 * step, 0.5, 0.98**step) for step in range(30)]
    assert end(conditions("acc"), *points) == (STALLED, 120.0)
    assert end(conditions("either"), *points) is None
    assert end(conditions("loss"), *points) is None


@pytest.mark.parametrize("losses", [(0.0, 0.0, 0.0), (-1.0, -1.001, -1.002), (0.5, 0.0, 0.0)])
def test_a_loss_of_zero_or_less_does_not_break_the_test(losses):
    """Pitfall: a relative drop below a loss of 0 or less."""
    points = [point(60 * step, 0.5, loss) for step, loss in enumerate([*losses, losses[-1], losses[-1]])]
    assert end(conditions("loss"), *points) in ((STALLED, 120.0), (STALLED, 180.0))


def test_a_negative_loss_that_falls_is_progress():
    assert end(conditions("loss"), *(point(60 * step, 0.5, -(1.02**step)) for step in range(10))) is None
    assert end(conditions("loss"), point(0, 0.5, 0.0), point(60, 0.5, -0.02), point(150, 0.5, -0.02)) is None


def test_what_is_not_finite_is_neither_progress_nor_a_milestone():
    assert end(conditions("loss"), point(0), point(60, loss=math.nan), point(110, loss=-math.inf)) == (STALLED, 110.0)
    assert end(conditions("acc"), point(0), point(60, 0.9, finite=False), point(110)) == (STALLED, 110.0)
    assert end(conditions("acc"), point(0), point(60, math.nan), point(90, 0.6), point(110, 0.6)) is None


def test_a_signal_that_was_never_measured_is_not_held_against_the_run():
    assert end(conditions("loss"), *(point(t, loss=math.nan) for t in range(0, 1000, 50))) is None
    late = [*(point(t, loss=math.nan) for t in range(0, 500, 50)), point(500), point(590), point(600)]
    assert end(conditions("loss"), *late) == (STALLED, 600.0)


def test_a_bin_that_never_commits_is_no_progress():
    state = StopState(conditions()).update(point(0)).tick(99.0)
    assert state.decision is None
    assert state.tick(100.0).decision.verdict is STALLED


def test_convergence_is_checked_first_and_the_budget_last():
    held = conditions(target_accuracy=0.5, converge_window=2)
    assert end(held, point(0), point(50), point(100)) == (Verdict.CONVERGED, 100.0)
    both = conditions(max_bins=100)
    assert end(both, point(0), point(100)) == (STALLED, 100.0)


def test_the_reason_has_the_numbers():
    state, _ = replay(conditions(), [point(0, 0.5, 1.25), point(7200, 0.5, 1.25)])
    assert state.decision.reason == (
        "no progress for 2 h (the window is 100 s): "
        "accuracy did not gain 0.01 on 0.500, and loss did not fall 1 % below 1.25"
    )


def test_milestone_and_best_are_told_apart():
    settings = conditions()
    state, _ = replay(settings, [point(0, 0.5, 1.0), point(10, 0.505, 0.8)])
    found = milestones(settings.limits, state.memories["stall"])
    assert (found["acc"].value, found["acc"].best, found["acc"].at_s) == (0.5, 0.505, 0.0)
    assert found["acc"].next_value == pytest.approx(0.51)
    assert (found["loss"].value, found["loss"].at_s) == (0.8, 10.0)
    assert found["loss"].next_value == pytest.approx(0.792)
    assert last_progress_s(settings.limits, state.memories["stall"]) == 10.0


HUNDREDTHS = st.integers(0, 100).map(lambda n: n / 100)
GAPS = st.lists(st.floats(0.01, 99.0), min_size=1, max_size=40)


def times(gaps):
    at_s, listed = 0.0, [0.0]
    for gap in gaps:
        at_s += gap
        listed.append(at_s)
    return listed


@given(GAPS, st.lists(st.floats(0.1, 0.99), min_size=41, max_size=41), st.floats(1e-6, 1e6))
def test_a_monotone_loss_never_stalls_on_loss(gaps, ratios, loss):
    """Each evaluation drops by the delta or more, and none is a window after the one before."""
    points = []
    for at_s, ratio in zip(times(gaps), ratios, strict=False):
        points.append(point(at_s, 0.5, loss))
        loss *= ratio
    assert end(conditions("loss"), *points) is None


@given(GAPS, st.sampled_from(["acc", "loss", "either"]), st.floats(0.0, 1.0), st.floats(-5, 5), st.booleans())
def test_flat_never_survives_the_window(gaps, on, accuracy, loss, between):
    """Whether an evaluation or only the passing of time is seen, the first moment at or after the window ends it."""
    settings, state, at = conditions(on), None, times(gaps)
    state = StopState(settings).update(point(0, accuracy, loss))
    for at_s in at[1:]:
        state = state.tick(at_s) if between else state.update(point(at_s, accuracy, loss))
        assert (state.decision is not None) == (at_s >= WINDOW_S)
        if state.decision is not None:
            assert state.decision.verdict is STALLED
            break


@given(
    st.lists(st.tuples(st.floats(0, 60), HUNDREDTHS, HUNDREDTHS.map(lambda share: 4 * share - 1)), max_size=30),
    st.sampled_from(["acc", "loss", "either"]),
)
def test_agrees_with_brute_force(steps, on):
    """Milestones recomputed from scratch at each evaluation."""
    settings = conditions(on)
    at_s, points = 0.0, [point(0, 0.5, 1.0)]
    for gap, accuracy, loss in steps:
        at_s += gap
        points.append(point(at_s, accuracy, loss))

    def progress_times(count):
        accuracy, loss, acc_s, loss_s = 0.5, 1.0, 0.0, 0.0
        for p in points[1:count]:
            if p.accuracy - accuracy >= 0.01 - 1e-12:
                accuracy, acc_s = p.accuracy, p.engine_s
            if loss - p.loss >= 0.01 * (abs(loss) or 1.0) - 1e-12:
                loss, loss_s = p.loss, p.engine_s
        return {"acc": acc_s, "loss": loss_s, "either": max(acc_s, loss_s)}[on]

    ends = (p.engine_s for i, p in enumerate(points) if p.engine_s - progress_times(i + 1) >= WINDOW_S)
    first = next(ends, None)
    assert end(settings, *points) == (None if first is None else (STALLED, first))
