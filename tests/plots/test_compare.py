"""The comparison of runs: numbers of the whole run, from the same source as the figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fluxctl.config.fingerprint import condition_differences
from fluxctl.errors import ConfigError
from fluxctl.plots.conditions import mixed_warning, refuse_mixed
from fluxctl.plots.group import Options, make_groups
from fluxctl.plots.summary import summaries
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series


@pytest.fixture
def series(recorded_runs):
    return [read_series(info.folder.path) for info in list_runs(recorded_runs)]


def rows(runs):
    return summaries(make_groups([("", run) for run in runs], Options()))


@pytest.mark.feature("F8")
def test_the_table_says_what_the_runs_themselves_add_up(series, recorded_runs):
    ends = {info.record.id: info.verdict for info in list_runs(recorded_runs)}
    assert len(rows(series)) == 3
    for row in rows(series):
        told = ends[row["run"]].summary
        assert row["verdict"] == ends[row["run"]].verdict.value
        for ours, theirs in (
            ("bins", "bins"),
            ("cycles", "cycles"),
            ("updates", "updates"),
            ("peak_accuracy", "best_accuracy"),
            ("final_accuracy", "final_accuracy"),
            ("engine_s", "engine_s"),
            ("forward_passes", "forward_passes"),
            ("bytes_down", "bytes_down"),
            ("bytes_up", "bytes_up"),
        ):
            assert row[ours] == pytest.approx(told[theirs]), ours


@pytest.mark.feature("F8")
def test_a_run_that_lacks_newer_fields_has_gaps_and_no_error(series):
    run = series[0]
    nothing = np.full(len(run.cycles), np.nan)
    cycles = replace(run.cycles, wall_s=nothing, aggregate_s=nothing)
    split = replace(run.aggregator, **dict.fromkeys(vars_of(run.aggregator), float("nan")))
    old = replace(run, messages=(), cycles=cycles, aggregator=split, facts=replace(run.facts, verdict=None, seed=None))
    (row,) = rows([old])
    assert (row["wall_s"], row["aggregate_s"], row["verdict"], row["bytes_up"]) == (None, None, None, 0)
    json.dumps(row, allow_nan=False)


def vars_of(split):
    return split.__dataclass_fields__


@pytest.mark.feature("F8")
def test_runs_of_different_conditions_are_refused_with_the_difference(series):
    left, right = series[0].facts, series[1].facts
    refuse_mixed([left, right])
    assert mixed_warning([left, right]) == ""
    config = right.config.model_copy(update={"data": right.config.data.model_copy(update={"train_per_class": 7})})
    other = replace(right, config=config, condition="other")
    assert condition_differences(left.config, config) == {"data.train_per_class": (60, 7)}
    with pytest.raises(ConfigError, match=r"data\.train_per_class 60 and 7") as caught:
        refuse_mixed([left, other])
    assert left.id in caught.value.message
    assert other.id in caught.value.message
    assert "--allow-mixed" in caught.value.hint
    assert "data.train_per_class 60 and 7" in mixed_warning([left, other])
    refuse_mixed([left, replace(other, condition="")])  # an old run says nothing of its condition
    with pytest.raises(ConfigError, match="other"):
        refuse_mixed([replace(left, config=None), other])


def test_seeds_are_rows_of_their_own_and_share_a_label(series):
    flux = [run for run in series if run.facts.baseline == "fluxtune"]
    assert [(row["label"], row["seed"]) for row in rows(flux)] == [("fluxtune", 0), ("fluxtune", 1)]
