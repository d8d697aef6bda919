"""Costs up to the first evaluation at a target, against sums by hand; and who may be compared."""

import dataclasses
import json

import numpy as np
import pytest

from fluxctl.analyses.arrivals import step_memory_by_label
from fluxctl.analyses.energy import PowerModel, step_energy_j
from fluxctl.analyses.to_target import to_target
from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series


@pytest.fixture
def climbing(run_copy, edit_events):
    """A recorded run whose accuracies are what a test wants."""

    def make(baseline, accuracies):
        folder = run_copy(baseline)
        values = iter(accuracies)
        edit_events(folder, lambda e: {**e, "test_accuracy": next(values)} if e["event"] == "agg_eval" else e)
        return folder

    return make


def test_costs_are_those_up_to_the_first_evaluation_at_the_target(climbing):
    folder = climbing("fluxtune", [0.1, 0.3, 0.61, 0.5, 0.7])
    events = [json.loads(line) for line in folder.events.read_text().splitlines()]
    arrival_ns = [event["t_ns"] for event in events if event["event"] == "agg_eval"][2]
    steps = [event for event in events if event["event"] == "trainer_round" and event["t_ns"] <= arrival_ns]
    analysis = to_target([read_series(folder.path)], 0.6)
    (told,) = analysis.data["runs"]
    assert (told["reached"], told["bins"], told["best_accuracy"]) == (True, 2, 0.7)
    assert told["engine_s"] == arrival_ns / 1e9
    assert told["passes"] == sum(step["forward_passes"] for step in steps)
    # D is constant in passes here: 70 % of each duration is compute at 3 W, the rest network at 1 W
    assert told["energy_j"] == pytest.approx(
        sum(step["modelled_d_s"] for step in steps) * (0.7 * 3 + 0.3 * 1), rel=1e-6
    )
    up = [e["bytes"] for e in events if e["event"] == "comm" and e["direction"] == "up" and e["t_ns"] <= arrival_ns]
    assert told["bytes_up"] == sum(up)


def test_auto_is_the_highest_accuracy_that_all_reach(climbing):
    left = climbing("fluxtune", [0.1, 0.2, 0.4567, 0.3, 0.3])
    right = climbing("fwdllm", [0.1, 0.2, 0.3, 0.4, 0.9])
    analysis = to_target([read_series(folder.path) for folder in (left, right)])
    assert analysis.data["target"] == 0.456
    assert analysis.is_ok
    assert [group["num_reached"] for group in analysis.data["groups"]] == [1, 1]
    assert "which every run reaches" in analysis.conclusion


def test_a_run_that_never_gets_there_is_said_and_not_averaged(climbing):
    left = climbing("fluxtune", [0.1, 0.2, 0.9, 0.9, 0.9])
    right = climbing("fwdllm", [0.1, 0.2, 0.3, 0.4, 0.4])
    analysis = to_target([read_series(folder.path) for folder in (left, right)], 0.8)
    assert not analysis.is_ok
    assert [group["num_reached"] for group in analysis.data["groups"]] == [1, 0]
    assert analysis.data["runs"][1]["passes"] is None
    assert analysis.conclusion.endswith("fwdllm never got there.")
    assert to_target([read_series(right.path)], 0.8).conclusion == "No run reaches an accuracy of 0.8."


def test_what_the_untrained_model_has_costs_nothing(climbing):
    folder = climbing("fluxtune", [0.5, 0.2, 0.2, 0.2, 0.2])
    assert to_target([read_series(folder.path)]).conclusion.startswith("An accuracy of 0.5 costs nothing")


def test_seeds_of_one_system_are_one_row(recorded_runs):
    series = [read_series(info.folder.path) for info in list_runs(recorded_runs)]
    analysis = to_target(series, 0.01, memory={"fluxtune": 1234})
    (grid,) = analysis.grids
    assert [row[:2] for row in grid.rows] == [("fluxtune", "2 of 2"), ("fwdllm", "1 of 1")]
    assert [row[-1] for row in grid.rows] == [1234, None]
    assert len(analysis.charts[0].draw().traces) == 2


def test_two_modes_of_one_system_are_two_rows(recorded_runs):
    one = read_series(list_runs(recorded_runs)[0].folder.path)
    real = dataclasses.replace(one, facts=dataclasses.replace(one.facts, mode="real"))
    analysis = to_target([one, real], 0.01)
    assert [group["label"] for group in analysis.data["groups"]] == ["fluxtune sim", "fluxtune real"]


def test_runs_of_different_conditions_are_refused_by_name(recorded_runs):
    one, other = (read_series(info.folder.path) for info in list_runs(recorded_runs)[:2])
    config = other.facts.config.model_copy(
        update={"data": other.facts.config.data.model_copy(update={"batch_size": 4})}
    )
    mixed = dataclasses.replace(other, facts=dataclasses.replace(other.facts, condition="x", config=config))
    with pytest.raises(ConfigError, match="different conditions") as caught:
        to_target([one, mixed])
    assert "data.batch_size 8 and 4" in caught.value.message
    assert to_target([one, mixed], 0.01, allow_mixed=True).is_ok
    assert to_target([one, other]).charts


@pytest.mark.parametrize("target", [0.0, 1.5, -1.0])
def test_a_target_must_be_an_accuracy(recorded_runs, target):
    series = read_series(list_runs(recorded_runs)[0].folder.path)
    with pytest.raises(ConfigError, match="is no accuracy"):
        to_target([series], target)


def test_a_run_without_evaluations_is_nothing_to_compare(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: None if item["event"] == "agg_eval" else item)
    with pytest.raises(NothingToDoError, match="no evaluation"):
        to_target([read_series(folder.path)])


def test_energy_counts_passes_where_durations_do(recorded_runs):
    series = read_series(list_runs(recorded_runs)[0].folder.path)
    config = series.facts.config
    per_pass = config.model_copy(
        update={"delays": config.delays.model_copy(update={"compute_model": "per_pass", "reference_passes": 10})}
    )
    # with P = 10 a step has 20 passes, twice those that D was measured for: compute doubles, network stays
    updates = dataclasses.replace(series.updates, duration_s=series.updates.duration_s * (0.7 * 2 + 0.3))
    energy = step_energy_j(per_pass, updates, PowerModel(compute_watts=2.0, radio_watts=10.0))
    np.testing.assert_allclose(energy, series.updates.duration_s * (0.7 * 2 * 2.0 + 0.3 * 10.0), rtol=1e-6)


def test_memory_is_what_the_run_measured_for_its_own_method(recorded_runs):
    """Of either method, the run of gradients by back-propagation needs the larger one here."""
    [series, *_] = [read_series(info.folder.path) for info in list_runs(recorded_runs)]
    facts = dataclasses.replace(series.facts, summary={"forward_memory_bytes": 5, "backprop_memory_bytes": 9})
    step = facts.config.step.model_copy(update={"estimator": "backprop"})
    learning = dataclasses.replace(facts, config=facts.config.model_copy(update={"step": step}))

    def found(known):
        return list(step_memory_by_label([dataclasses.replace(series, facts=known)], lambda _: 0).values())

    assert (found(facts), found(learning)) == ([5], [9])


def test_memory_that_no_run_recorded_is_measured_once_per_system(recorded_runs):
    found = [read_series(info.folder.path) for info in list_runs(recorded_runs)]
    series = [dataclasses.replace(one, facts=dataclasses.replace(one.facts, summary={})) for one in found]
    asked = []

    def measure(path):
        asked.append(path)
        return 7 if len(asked) == 1 else None

    assert step_memory_by_label(series, measure) == {"fluxtune": 7}
    assert len(asked) == 2
