"""Where curves end, and the gate that shows a run whole which never learned."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.plots.cut import LEARNED_GAIN, PLATEAU_FRAC, Cut, has_learned, num_shown
from fluxctl.telemetry.series import Evaluations


def evaluations(accuracy, loss=None):
    n = len(accuracy)
    zeros = np.zeros(n, dtype=np.int64)
    return Evaluations(
        engine_s=np.arange(n, dtype=float),
        wall_s=np.arange(n, dtype=float),
        passes=zeros,
        bytes_down=zeros,
        bytes_up=zeros,
        num_commits=zeros,
        round=zeros,
        accuracy=np.array(accuracy, dtype=float),
        loss=np.array([1.0] * n if loss is None else loss, dtype=float),
        mcc=np.zeros(n),
    )


@pytest.mark.feature("F9")
def test_a_curve_ends_at_the_first_of_equal_peaks():
    run = evaluations([0.2, 0.5, 0.8, 0.8, 0.7])
    assert num_shown(run, Cut.PEAK_ACC) == 3
    assert num_shown(run, Cut.NONE) == 5


@pytest.mark.feature("F9")
def test_a_curve_ends_where_its_loss_has_fallen_all_but_a_hundredth():
    run = evaluations([0.2, 0.5, 0.6, 0.7, 0.8], [2.0, 1.0, 0.505, 0.5, 0.501])
    assert num_shown(run, Cut.LOSS_PLATEAU) == 3
    assert num_shown(evaluations([0.2, 0.5, 0.6], [2.0, np.nan, np.nan]), Cut.LOSS_PLATEAU) == 1
    assert num_shown(evaluations([0.2, 0.5], [np.nan, np.nan]), Cut.LOSS_PLATEAU) == 2


@pytest.mark.feature("F11")
@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize(
    "accuracy",
    [[], [0.9], [0.25, 0.27, 0.24, 0.25], [0.5, 0.3, 0.2], [np.nan, np.nan], [0.25, 0.25 + LEARNED_GAIN - 0.001, 0.1]],
)
def test_a_run_that_never_learned_is_shown_whole(accuracy, cut):
    run = evaluations(accuracy)
    assert not has_learned(run)
    assert num_shown(run, cut) == len(accuracy)


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=30), st.sampled_from(list(Cut)))
def test_no_cut_hides_the_peak_of_a_run_that_learned(accuracy, cut):
    run = evaluations(accuracy, [2 - value for value in accuracy])
    shown = num_shown(run, cut)
    assert 0 <= shown <= len(accuracy)
    assert shown or not accuracy
    if cut is Cut.PEAK_ACC and has_learned(run):
        assert np.nanmax(run.accuracy[:shown]) == np.nanmax(run.accuracy) == run.accuracy[shown - 1]
    if cut is Cut.LOSS_PLATEAU and has_learned(run) and np.isfinite(run.loss[0]):
        fall = run.loss[0] - np.nanmin(run.loss)
        assert np.nanmin(run.loss[:shown]) - np.nanmin(run.loss) <= PLATEAU_FRAC * max(fall, 0) + 1e-12
