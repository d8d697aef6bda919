"""Class mixes against values worked by hand, shards dealt again as the engine dealt them, and correlations."""

import numpy as np
import pytest

from fluxctl.analyses.classmix import bin_counts, effective_classes, rank_correlation, skew
from fluxctl.analyses.cohorts import WANTED, Dealt, commit_cohorts
from fluxctl.analyses.partition import partition
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.data import Shards, load_corpus
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.columns import read_columns


def test_skew_and_effective_classes_by_hand():
    counts = np.array([[5, 5], [10, 0], [0, 0], [3, 1]])
    whole = np.array([10, 10])
    np.testing.assert_allclose(skew(counts, whole), [0.0, 0.5, np.nan, 0.25])
    # shares .75 and .25: 1 / (.5625 + .0625)
    np.testing.assert_allclose(effective_classes(counts), [2.0, 1.0, np.nan, 1.6])


def test_bins_hold_the_samples_of_their_mini_batch():
    labels = np.array([0, 0, 1, 1, 1])
    shards = Shards((np.array([4, 0, 1]), np.array([2, 3]), np.array([], dtype=np.int64)), 2, np.zeros((3, 2), int))
    found = bin_counts(shards, labels, 2)
    assert sorted(found) == [0, 1]
    assert found[0].tolist() == [[1, 1], [1, 0]]
    assert found[1].tolist() == [[0, 2]]
    dealt = Dealt(shards, found, np.array([2, 3]))
    assert dealt.task_counts(0, 3).tolist() == [1, 0]  # bin 3 of a client with two bins is its second
    assert dealt.task_counts(0, 3, whole_shard=True).tolist() == [2, 1]


def test_a_stale_update_counts_with_the_bin_that_it_was_computed_on(write_events):
    config = Config(data={"classes": ("a", "b"), "batch_size": 1}, clients={"num_clients": 2},
                    aggregation={"goal": 1, "concurrency": 2})  # fmt: skip
    labels = np.array([0, 1, 0, 1])
    shards = Shards((np.array([0, 1]), np.array([2, 3])), 1, np.array([[1, 1], [1, 1]]))
    dealt = Dealt(shards, bin_counts(shards, labels, 2), np.array([2, 2]))

    def cycle(bin_, clients, ages, reason):
        return {"event": "agg_round", "cycle_bin": bin_, "commit_reason": reason, "contributing_trainers": clients,
                "staleness": ages}  # fmt: skip

    events = [
        cycle(0, [0], [0], None),
        cycle(0, [1], [0], "natural"),  # both of class a
        cycle(1, [0, 1], [0, 1], "natural"),  # client 1 is one version behind: bin 0, class a
        {"event": "agg_eval", "version": 0, "test_accuracy": 0.5, "predicted_counts": [2, 2]},
        {"event": "agg_eval", "version": 1, "test_accuracy": 0.4, "predicted_counts": [4, 0]},
    ]
    cohorts = commit_cohorts(config, dealt, read_columns(write_events(events), WANTED))
    assert cohorts.counts.tolist() == [[2, 0], [1, 1]]
    np.testing.assert_allclose(cohorts.skews, [0.5, 0.0])
    np.testing.assert_allclose(cohorts.drops, [0.1, np.nan])
    np.testing.assert_allclose(cohorts.dominance, [1.0, np.nan])
    assert cohorts.predicted.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("left", "right", "rho", "num"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0, 4),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0, 4),
        ([1, 2, 3], [1, 2, 3], None, 3),
        ([1, 1, 1, 1], [1, 2, 3, 4], None, 4),
        ([1, 2, np.nan, 3, 4], [1, 2, 3, np.nan, 4], None, 3),
    ],
)
def test_rank_correlation(left, right, rho, num):
    found, p_value, count = rank_correlation(np.array(left, float), np.array(right, float))
    assert (found, count) == (rho if rho is None else pytest.approx(rho), num)
    assert (p_value is None) == (rho is None)


def test_a_real_run_is_dealt_again_as_it_was(recorded_runs):
    info = list_runs(recorded_runs)[0]
    config = read_config(info.folder.config).config
    dealt = Dealt.of(config, load_corpus(config.data).train_labels)
    columns = read_columns(info.folder.events, {"trainer_round": {}, **WANTED})
    assert columns.meta["bins_per_round"] == dealt.shards.max_bins
    analysis = partition(info.folder)
    assert len(analysis.data["cohorts"]) == 4
    num_updates = columns["agg_round"].lists("contributing_trainers").lengths.sum()
    counted = sum(sum(cohort["counts"]) for cohort in analysis.data["cohorts"])
    assert counted <= num_updates * config.data.batch_size
    over_alpha = analysis.data["over_alpha"]
    skews = [row["client_skew"] for row in over_alpha]
    assert skews == sorted(skews, reverse=True)  # a larger alpha is less skewed
    assert [row["alpha"] for row in over_alpha] == [0.1, 0.3, 1.0, 3.0, 10.0, 100.0]
    assert "4 commits" in analysis.conclusion
    for chart in analysis.charts:
        assert len(chart.draw().traces) >= 1
        assert len(chart.points) in (4, config.clients.num_clients)


def test_collapses_are_counted_towards_the_cohorts_class(run_copy, edit_events):
    folder = run_copy()
    accuracies = iter([0.9, 0.5, 0.5, 0.5, 0.5])
    edit_events(
        folder, lambda item: {**item, "test_accuracy": next(accuracies)} if item["event"] == "agg_eval" else item
    )
    analysis = partition(folder, collapse=0.3)
    assert analysis.data["num_collapses"] == 1
    assert "; 1 commit lost 0.3 or more" in analysis.conclusion


def test_a_run_that_committed_nothing(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: None if item["event"] == "agg_round" else item)
    assert "nothing was committed" in partition(folder).conclusion
