"""The guard over event files: replay, following, and the order of what happens at one time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping import StopConditions
from fluxctl.policies.stopping import replay as replay_points
from fluxctl.telemetry.evaluations import eval_point, evaluations
from fluxctl.types import Verdict
from fluxctl.watch.loop import EventTail, Guard, Line, replay
from fluxctl.watch.outlook import idle_s, prospects

NS = 1_000_000_000
HEADER = {"event": "header", "schema_version": 1}


def evaluation(t_s, version, accuracy=0.5, loss=1.0, **more):
    counts = [10, 10]
    return {"event": "agg_eval", "t_ns": round(t_s * NS), "round": 0, "version": version, "test_accuracy": accuracy,
            "test_loss": loss, "mcc": 0.0, "predicted_counts": counts, **more}  # fmt: skip


def cycle(t_s):
    return {"event": "agg_round", "t_ns": round(t_s * NS)}


def conditions(budget_s=1e9, **limits):
    return StopConditions(LimitsConfig(**limits), budget_s, 0.25)


def write(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in [HEADER, *events]))
    return path


def judge(events, settings):
    guard = Guard(settings)
    for number, event in enumerate(events, start=2):
        guard.take(Line(number, event))
    guard.settle()
    return guard


def outcome(guard):
    where = guard.where()
    return guard.decision, None if where is None else (where["t_ns"], where["event"], where["bins"])


@pytest.mark.feature("E25")
def test_a_replay_ends_where_the_points_end(tmp_path):
    accuracies = [0.2, 0.5, 0.8, 0.7, 0.8, 0.8, 0.8, 0.9]
    events = [event for i, acc in enumerate(accuracies) for event in (evaluation(i, i, acc), cycle(i))]
    settings = conditions(target_accuracy=0.8, converge_window=3, stall_window_s=4.5)
    guard = replay(write(tmp_path / "events.jsonl", events), settings)
    state, index = replay_points(settings, evaluations(tmp_path / "events.jsonl"))
    assert (guard.decision, guard.decision.verdict) == (state.decision, Verdict.CONVERGED)
    assert (index, guard.where()) == (
        6, {"line": 14, "event": "agg_eval", "t_ns": 6 * NS, "engine_s": 6.0, "bins": 6}
    )  # fmt: skip


def test_an_evaluation_is_judged_before_the_time_at_which_it_happens(tmp_path):
    """The engine sorts a cycle before its evaluation, but has judged the evaluation first."""
    settings = conditions(budget_s=5.0, target_accuracy=0.5, converge_window=1)
    guard = judge([evaluation(0, 0, 0.1), cycle(5), evaluation(5, 1, 0.9)], settings)
    assert guard.decision.verdict is Verdict.CONVERGED
    assert guard.where()["event"] == "agg_eval"


def test_time_that_passes_without_an_evaluation_is_seen():
    settings = conditions(stall_window_s=100)
    guard = judge([evaluation(0, 0), cycle(50), cycle(99), cycle(101)], settings)
    assert (guard.decision.verdict, guard.where()["event"], guard.engine_s) == (Verdict.STALLED, "agg_round", 101.0)


RUNS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.2, 0.5, 0.505, 0.6, 0.8]), st.sampled_from([0.5, 1.0, 1.2])),
    min_size=1, max_size=25,
)  # fmt: skip


@pytest.mark.feature("E12")
@given(RUNS, st.randoms(use_true_random=False), st.sampled_from(["acc", "loss", "either"]))
def test_shuffling_equal_time_stamps_changes_nothing(steps, rng, on):
    events, t_s = [], 0
    for version, (gap, accuracy, loss) in enumerate(steps):
        t_s += gap
        events += [cycle(t_s), evaluation(t_s, version, accuracy, loss)]
    settings = conditions(budget_s=20.0, target_accuracy=0.8, converge_window=3, stall_window_s=6, stall_on=on)
    shuffled = sorted(events, key=lambda event: (event["t_ns"], rng.random()))
    assert outcome(judge(shuffled, settings)) == outcome(judge(events, settings))


@given(RUNS, st.lists(st.integers(1, 200), max_size=20))
def test_a_file_that_grows_in_pieces_gives_what_the_whole_file_gives(tmp_path_factory, steps, cuts):
    events = [
        event
        for at_s, (_, accuracy, loss) in enumerate(steps)
        for event in (cycle(at_s), evaluation(at_s, at_s, accuracy, loss))
    ]
    events.append({"event": "verdict", "t_ns": len(steps) * NS, "verdict": "COMPLETED"})
    settings = conditions(budget_s=20.0, target_accuracy=0.8, converge_window=2, stall_window_s=6)
    folder = tmp_path_factory.mktemp("run")
    whole = write(folder / "whole.jsonl", events).read_bytes()
    growing, guard = folder / "events.jsonl", Guard(settings)
    tail, start = EventTail(growing), 0
    for end in sorted({*(cut * len(whole) // 200 for cut in cuts), len(whole)}):
        with growing.open("ab") as file:
            file.write(whole[start:end])
        start = end
        for line in tail.new():
            guard.take(line)
    guard.settle()
    assert outcome(guard) == outcome(replay(folder / "whole.jsonl", settings))
    assert guard.state == replay(folder / "whole.jsonl", settings).state


def test_a_file_that_is_not_there_yet_has_no_events(tmp_path):
    assert list(EventTail(tmp_path / "events.jsonl").new()) == []


def test_damaged_and_other_lines_are_passed_over(tmp_path):
    path = write(tmp_path / "events.jsonl", [evaluation(0, 0), {"event": "comm", "peer": "agg_eval"}])
    with path.open("a") as file:
        file.write('{"event":"agg_eval", torn\n[1]\n' + json.dumps(evaluation(1, 1)) + "\n")
    assert [(line.number, line.event["event"]) for line in EventTail(path).new()] == [(2, "agg_eval"), (6, "agg_eval")]


def test_null_and_missing_numbers_are_nan():
    point = eval_point({"event": "agg_eval", "t_ns": NS, "test_loss": None, "predicted_counts": [0, 4, 0]})
    assert (point.bins, point.engine_s, point.one_class, point.finite) == (0, 1.0, True, True)
    assert str([point.accuracy, point.loss, point.mcc]) == "[nan, nan, nan]"
    assert not eval_point(evaluation(0, 0, weights_finite=False)).finite


@pytest.mark.feature("E25")
def test_what_would_end_the_run_and_when():
    settings = conditions(
        budget_s=1000.0, target_accuracy=0.8, converge_window=3, max_bins=10, stall_window_s=100, stall_min_delta=0.01
    )
    guard = judge([evaluation(0, 0, 0.3, 2.0), evaluation(40, 1, 0.8, 1.0), cycle(60)], settings)
    told = {item.verdict: (item.when, item.fraction) for item in prospects(guard.state, guard.engine_s)}
    assert told[Verdict.CONVERGED] == ("2 more bins in a row at 0.8 or above (1 of 3)", pytest.approx(1 / 3))
    assert told[Verdict.STALLED] == (
        "at 2 min 20 s of engine time, in 80 s, unless accuracy reaches 0.810 or loss falls to 0.99", pytest.approx(0.2)
    )  # fmt: skip
    whens = [item.when for item in prospects(guard.state, guard.engine_s)]
    assert whens[2:] == ["1 of 10 bins", "60 s of 16 min 40 s of engine time"]
    assert idle_s(guard.state, guard.engine_s) == 20.0


def test_without_a_stall_rule_there_is_no_idle_time():
    guard = judge([evaluation(0, 0)], conditions())
    assert idle_s(guard.state, 50.0) is None
    assert [item.verdict for item in prospects(guard.state, 50.0)] == [Verdict.COMPLETED]
