"""Wall time by part, against sums by hand."""

import json

import pytest

from fluxctl.analyses.timing import timing
from fluxctl.runs.index import list_runs


def part(analysis, name):
    return next(item for item in analysis.data["parts"] if item["name"] == name)


def test_a_real_run_adds_up(recorded_runs):
    folder = list_runs(recorded_runs)[0].folder
    events = [json.loads(line) for line in folder.events.read_text().splitlines()]
    steps = [event["wall"] for event in events if event["event"] == "trainer_round"]
    cycles = [event["wall"] for event in events if event["event"] == "agg_round"]
    analysis = timing(folder)
    assert part(analysis, "train")["total_s"] == pytest.approx(sum(step["train_s"] for step in steps))
    assert part(analysis, "train")["num"] == len(steps)
    assert part(analysis, "eval")["total_s"] == pytest.approx(sum(cycle["eval_s"] for cycle in cycles))
    assert analysis.data["wall_s"] == cycles[-1]["wall_s"]
    assert analysis.data["num_overran"] == sum(step["overran"] for step in steps)
    shares = [item["share"] for item in analysis.data["parts"] if item["group"] == "client step"]
    assert sum(shares) == pytest.approx(1.0)
    by_bin, total = analysis.charts
    assert len(by_bin.points) == 4
    assert len(total.points) == len(analysis.data["parts"])
    assert all(chart.draw().traces for chart in analysis.charts)
    assert "recorded no times of single functions" in analysis.notes[0]


def test_functions_are_read_from_the_wall_file(run_copy):
    folder = run_copy()
    lines = [
        {"event": "step_timing", "function": "aggregate", "duration_s": 0.5, "round": 0, "bin": 0, "iteration": 0},
        {"event": "step_timing", "function": "select", "duration_s": 2.0, "round": 0, "bin": 0, "iteration": 0},
        {"event": "step_timing", "function": "aggregate", "duration_s": 0.25, "round": 0, "bin": 0, "iteration": 1},
        {"event": "step_timing", "function": "aggregate"},
    ]
    with folder.wall_events.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    analysis = timing(folder)
    told = [
        (item["name"], item["num"], item["total_s"]) for item in analysis.data["parts"] if item["group"] == "function"
    ]
    assert told == [("select", 1, 2.0), ("aggregate", 2, 0.75)]
    assert analysis.notes == ()


def test_a_run_that_measured_nothing(run_copy, edit_events):
    folder = run_copy()

    def forget(item):
        item.pop("wall", None)
        return item

    edit_events(folder, forget)
    folder.wall_events.unlink()
    analysis = timing(folder)
    assert analysis.data["parts"] == []
    assert analysis.data["wall_s"] is None
    edit_events(folder, lambda item: None if item["event"] == "trainer_round" else item)
    assert timing(folder).conclusion == "No client step was timed."
