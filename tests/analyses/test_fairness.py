"""Indices worked by hand, and accuracies of a real model on each client's own texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.analyses.fairness import fairness, gini, jain, worst_decile
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series


def test_indices_by_hand():
    assert jain(np.array([1.0, 1.0, 1.0])) == 1.0
    assert jain(np.array([0.0, 0.0, 3.0])) == pytest.approx(1 / 3)
    assert gini(np.array([2.0, 2.0])) == 0.0
    # of (0, 0, 0, 4) the last has everything: 1 - 1 / 4
    assert gini(np.array([0.0, 4.0, 0.0, 0.0])) == 0.75
    assert np.isnan(jain(np.zeros(3)))
    assert np.isnan(gini(np.zeros(3)))
    assert worst_decile(np.arange(20.0)) == 0.5
    assert worst_decile(np.array([3.0, 1.0])) == 1.0
    assert np.isnan(worst_decile(np.zeros(0)))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40).filter(any))
def test_gini_is_the_mean_difference(values):
    array = np.array(values, float)
    differences = np.abs(array[:, None] - array[None, :]).mean()
    assert gini(array) == pytest.approx(differences / (2 * array.mean()))
    assert 1 / len(values) - 1e-9 <= jain(array) <= 1 + 1e-9


def test_participation_of_a_real_run(recorded_runs):
    series = read_series(list_runs(recorded_runs)[0].folder.path)
    analysis = fairness(series, why_not="nobody asked")
    assert sum(client["updates"] for client in analysis.data["clients"]) == len(series.sessions)
    assert analysis.data["num_clients"] == 10
    assert analysis.data["accuracy"] is None
    assert analysis.notes == ("Accuracy of single clients is left out: nobody asked.",)
    assert len(analysis.charts) == 1
    assert len(analysis.charts[0].draw().traces) == 1


def test_accuracies_are_shown_with_their_worst_decile(recorded_runs):
    series = read_series(list_runs(recorded_runs)[0].folder.path)
    accuracies = np.linspace(0.1, 1.0, 10)
    analysis = fairness(series, accuracies)
    assert analysis.data["accuracy"]["worst_decile"] == pytest.approx(0.1)
    assert "right on 55.0% of a client's own texts, on 10.0% in the worst tenth" in analysis.conclusion
    assert analysis.grids[1].rows[0][0] == "0"
    shares = [row[1] for row in analysis.charts[1].points]
    assert shares == pytest.approx(np.arange(1, 11) / 10)


def test_a_run_in_which_nobody_took_part(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: None if item["event"] in ("agg_round", "trainer_round") else item)
    analysis = fairness(read_series(folder.path))
    assert analysis.conclusion == "No client's update was ever used."
    assert analysis.data["participation"]["jain"] is None
