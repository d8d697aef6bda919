"""The reducer against a reader that knows nothing of it: every number, on random event files and on real ones."""

import contextlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import Axis, read_series
from fluxctl.telemetry.writer import EventWriter

S = 1_000_000_000
HEADER = {"event": "header", "schema_version": 1, "identity": {"run": "r", "mode": "sim"}}

# ------------------------------------------------------------------------------------------------------- oracle


def parsed(path):
    """Every line after the header that can be read."""
    for line in Path(path).read_bytes().splitlines(keepends=True)[1:]:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def truth(path):
    """Read a file line by line, keeping count as it goes: what "so far" means, taken literally."""
    passes = down = up = commits = 0
    wall = 0.0
    cadence = ("cycle_bin", "commit_reason")
    has_cadence = any(
        event["event"] == "agg_round" and any(event.get(name) is not None for name in cadence) for event in parsed(path)
    )
    found = {name: [] for name in ("evals", "cycles", "updates", "sessions")}
    kinds, last_ns = {}, 0
    for event in parsed(path):
        name, t = event["event"], event["t_ns"] / S
        last_ns = event["t_ns"]
        so_far = {"passes": passes, "down": down, "up": up}
        if name == "comm":
            key, size = (event["direction"], event.get("payload", "unknown")), event.get("bytes", 0)
            kinds.setdefault(key, []).append(size)
            down, up = (down + size, up) if event["direction"] == "down" else (down, up + size)
        elif name == "trainer_round":
            passes += event.get("forward_passes", 0)
            found["updates"].append((event["client"], t, event.get("modelled_d_s"), event.get("wait_s")))
        elif name == "agg_round":
            commits += event.get("commit_reason") is not None or not has_cadence
            wall = event.get("wall", {}).get("wall_s", math.nan)
            for part in event.get("contributor_intervals", ()):
                found["sessions"].append((part["client"], len(found["cycles"]), part["dispatch"], part["commit"]))
            found["cycles"].append({**event, **so_far, "t": t, "commits": commits, "wall_s": wall})
        elif name == "agg_eval":
            found["evals"].append({**event, **so_far, "t": t, "commits": commits, "wall_s": wall})
    return found, kinds, last_ns


def same(ours, theirs):
    """Equal numbers; what a file holds as null, or not at all, is nan or -1."""
    filled = [math.nan if value is None else value for value in theirs]
    np.testing.assert_array_equal(np.asarray(ours, dtype=float), np.array(filled, dtype=float))


def check(path):
    series = read_series(path)
    found, kinds, last_ns = truth(path)
    for rows, ours in ((found["evals"], series.evaluations), (found["cycles"], series.cycles)):
        same(ours.engine_s, [row["t"] for row in rows])
        same(ours.wall_s, [row["wall_s"] for row in rows])
        same(ours.passes, [row["passes"] for row in rows])
        same(ours.bytes_down, [row["down"] for row in rows])
        same(ours.bytes_up, [row["up"] for row in rows])
        same(ours.num_commits, [row["commits"] for row in rows])
        same(ours.along(Axis.BYTES), [row["down"] + row["up"] for row in rows])
    same(series.evaluations.accuracy, [row.get("test_accuracy") for row in found["evals"]])
    same(series.evaluations.loss, [row.get("test_loss") for row in found["evals"]])
    cycles = found["cycles"]
    same(series.cycles.var, [row.get("var") for row in cycles])
    same(series.cycles.bin, [row.get("cycle_bin", -1) for row in cycles])
    reasons = [series.cycles.reason.names[code] if code >= 0 else None for code in series.cycles.reason.codes]
    assert reasons == [row.get("commit_reason") for row in cycles]
    assert [series.cycles.staleness[row].tolist() for row in range(len(cycles))] == [
        row.get("staleness", []) for row in cycles
    ]
    updates = found["updates"]
    same(series.updates.client, [client for client, *_ in updates])
    same(series.updates.due_s, [t for _, t, _, _ in updates])
    dispatched = [math.nan if wait is None else t - wait for _, t, _, wait in updates]
    np.testing.assert_allclose(series.updates.dispatch_s, dispatched, atol=1e-9)
    same(series.sessions.client, [client for client, *_ in found["sessions"]])
    same(series.sessions.cycle, [cycle for _, cycle, *_ in found["sessions"]])
    same(series.sessions.span_s, [commit - dispatch for *_, dispatch, commit in found["sessions"]])
    assert {
        (kind.direction, kind.kind): (kind.count, kind.total_bytes, kind.min_bytes, kind.max_bytes)
        for kind in series.messages
    } == {key: (len(sizes), sum(sizes), min(sizes), max(sizes)) for key, sizes in kinds.items()}
    busy = np.zeros(len(series.busy_frac))
    took_part = np.zeros(len(series.participation))
    for client, _, duration, _ in updates:
        busy[client] += duration or 0.0
    for client, *_ in found["sessions"]:
        took_part[client] += 1
    assert series.engine_s == last_ns / S
    np.testing.assert_allclose(series.busy_frac, np.minimum(busy * S / last_ns, 1) if last_ns else 0 * busy)
    np.testing.assert_array_equal(series.participation, took_part)
    return series


# -------------------------------------------------------------------------------------------------------- files

TIMES = st.integers(0, 12).map(lambda step: step * S // 4)  # coarse, so that many events share an instant
CLIENTS = st.integers(0, 6)
NUMBERS = st.floats(0, 2).map(lambda value: round(value, 3))


@st.composite
def streams(draw):
    """Events of the kinds that are read, in the writer's order; some lack what newer versions write."""
    rows = []
    for t in draw(st.lists(TIMES, max_size=12)):
        client = draw(CLIENTS)
        rows.append(
            (
                t,
                "trainer_round",
                {
                    "client": client,
                    "version": 0,
                    "modelled_d_s": draw(NUMBERS),
                    "wait_s": draw(NUMBERS),
                    "loss": draw(NUMBERS | st.none()),
                    "forward_passes": draw(st.integers(0, 20)),
                },
                client,
            )
        )
    for t in draw(st.lists(TIMES, max_size=12)):
        way = draw(st.sampled_from(["down", "up"]))
        kind = draw(st.sampled_from(["weights", "keep_going"])) if way == "down" else "gradient"
        size = draw(st.integers(0, 10**6))
        rows.append((t, "comm", {"direction": way, "payload": kind, "bytes": size, "peer": draw(CLIENTS)}, 0))
    for t in draw(st.lists(TIMES, max_size=8)):
        members = draw(st.lists(CLIENTS, max_size=3))
        fields = {
            "round": draw(st.integers(0, 3)),
            "cycle_bin": draw(st.integers(0, 2)),  # repeats: nothing may be keyed by it
            "cycle_iteration": draw(st.integers(0, 5)),
            "commit_reason": draw(st.sampled_from([None, "natural", "cap", "plateau"])),
            "staleness": [draw(st.integers(0, 4)) for _ in members],
            "contributor_intervals": [
                {"client": member, "dispatch": max(0.0, t / S - 1), "commit": t / S} for member in members
            ],
        }
        if draw(st.booleans()):
            fields["var"] = draw(NUMBERS | st.none())
        wall = {"wall_s": draw(NUMBERS), "aggregate_s": draw(NUMBERS)} if draw(st.booleans()) else None
        rows.append((t, "agg_round", fields, -1, wall))
    for t in draw(st.lists(TIMES, max_size=6)):
        accuracy, loss = draw(NUMBERS | st.none()), draw(NUMBERS | st.none())
        rows.append((t, "agg_eval", {"round": 0, "version": 0, "test_accuracy": accuracy, "test_loss": loss}, -1))
    return rows


def write(folder, rows):
    with EventWriter(folder) as writer:
        writer.header({"run": "r", "mode": "sim"})
        for t, event, fields, key, *wall in rows:
            writer.emit(t, event, fields, key=key, wall=wall[0] if wall else None)
    return folder / "events.jsonl"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("streams")


def write_anew(folder, rows):
    (folder / "events.jsonl").unlink(missing_ok=True)
    return write(folder, rows)


@given(streams())
@settings(max_examples=150)
def test_every_number_equals_a_reading_by_hand(scratch, rows):
    check(write_anew(scratch, rows))


@given(streams(), st.data())
@settings(max_examples=100)
def test_a_run_that_crashed_anywhere_is_read_up_to_there(scratch, rows, data):
    path = write_anew(scratch, rows)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(content.index(b"\n") + 1, len(content)))])
    assert check(path).facts.verdict is None


NEWER = {
    "trainer_round": ("modelled_d_s", "wait_s", "loss", "forward_passes"),
    "comm": ("payload", "bytes"),
    "agg_round": ("cycle_bin", "cycle_iteration", "commit_reason", "staleness", "contributor_intervals"),
    "agg_eval": ("round", "test_accuracy", "test_loss"),
}
LACKS = st.sets(st.sampled_from([(kind, name) for kind, names in NEWER.items() for name in names]))


@given(streams(), LACKS)
@settings(max_examples=100)
def test_a_run_of_a_version_that_wrote_less_is_read_with_gaps(scratch, rows, lacks):
    older = [
        (t, kind, {name: value for name, value in fields.items() if (kind, name) not in lacks}, *rest)
        for t, kind, fields, *rest in rows
    ]
    check(write_anew(scratch, older))


def test_recorded_runs_equal_a_reading_by_hand_and_their_own_summary(recorded_runs):
    for info in list_runs(recorded_runs):
        series = check(info.folder.events)
        told = read_series(info.folder.path)
        summary = info.verdict.summary
        assert (told.passes, told.num_commits) == (summary["forward_passes"], summary["bins"])
        assert (told.total_bytes("down"), told.total_bytes("up")) == (summary["bytes_down"], summary["bytes_up"])
        assert told.evaluations.accuracy[told.evaluations.peak] == summary["best_accuracy"]
        assert len(told.busy_frac) == told.facts.config.clients.num_clients >= len(series.busy_frac)
        assert (told.facts.label, told.facts.mode, told.facts.seed) == (
            info.record.baseline,
            "sim",
            info.record.seed,
        )
        split = told.aggregator
        parts = split.aggregate_s + split.eval_s + split.wait_s + split.rest_s
        assert parts == pytest.approx(split.total_s)
        assert min(split.aggregate_s, split.eval_s, split.wait_s, split.rest_s) >= 0


# --------------------------------------------------------------------------------------------------- bare files


def lines(*events, tail=""):
    return "".join(json.dumps(event) + "\n" for event in (HEADER, *events)) + tail


def evaluation(t, accuracy):
    return {"event": "agg_eval", "t_ns": t, "test_accuracy": accuracy, "test_loss": 1.0}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_evaluations_and_no_verdict(tmp_path, count):
    path = tmp_path / "events.jsonl"
    path.write_text(lines(*(evaluation(n * S, 0.25 + n / 4) for n in range(count))))
    series = read_series(path)
    assert len(series.evaluations) == count
    assert series.evaluations.peak == (count - 1 if count else None)
    assert series.evaluations.first_at(0.4) == (1 if count == 2 else None)
    assert (series.facts.verdict, series.facts.seed, series.num_commits) == (None, None, 0)
    assert math.isnan(series.wall_s)
    assert len(series.cycles) == len(series.sessions) == len(series.messages) == len(series.busy_frac) == 0


def test_a_torn_last_line_costs_that_line(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(lines(evaluation(0, 0.5), tail='{"event":"agg_eval","t_ns":10'))
    series = read_series(path)
    assert series.evaluations.accuracy.tolist() == [0.5]
    assert [(problem.line, problem.message) for problem in series.problems] == [(3, "torn last line, ignored")]


def test_the_first_of_equal_peaks_and_nan_are_told_apart(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(lines(*(evaluation(n * S, value) for n, value in enumerate([None, 0.5, 0.7, 0.7]))))
    assert read_series(path).evaluations.peak == 2
    path.write_text(lines(evaluation(0, None)))
    assert read_series(path).evaluations.peak is None


def test_rounds_that_use_a_bin_twice_are_kept_apart(tmp_path):
    """The reducer that was keyed by bin overwrote the first round when the second came."""
    cycles = [
        {
            "event": "agg_round",
            "t_ns": n * S,
            "round": n // 2,
            "cycle_bin": n % 2,
            "var": float(n),
            "commit_reason": "cap",
        }
        for n in range(4)
    ]
    path = tmp_path / "events.jsonl"
    path.write_text(lines(*cycles))
    found = read_series(path).cycles
    assert found.var.tolist() == [0, 1, 2, 3]
    assert found.bin_of_cycle.tolist() == [0, 1, 2, 3]
    assert found.round_ends.tolist() == [1]


def test_a_run_without_cadence_commits_in_every_cycle_and_an_odd_client_harms_nobody(tmp_path):
    cycles = [{"event": "agg_round", "t_ns": n * S, "round": n} for n in range(3)]
    odd = {"event": "trainer_round", "t_ns": 3 * S, "client": 10**15, "modelled_d_s": 1.0, "forward_passes": 2}
    lost = {"event": "trainer_round", "t_ns": None, "client": None, "forward_passes": None}
    path = tmp_path / "events.jsonl"
    path.write_text(lines(*cycles, odd, lost))
    series = read_series(path)
    assert series.cycles.is_commit.all()
    assert series.cycles.var_threshold.tolist() != series.cycles.var_threshold.tolist()  # nan
    assert (series.passes, len(series.busy_frac), series.updates.client.tolist()) == (2, 0, [10**15, -1])
    assert series.updates.due_s.tolist() == [3.0, 3.0]  # one without a time is as late as the one before


def test_files_that_are_none(tmp_path):
    with pytest.raises(NothingToDoError):
        read_series(tmp_path / "absent.jsonl")
    (tmp_path / "events.jsonl").write_text("")
    with pytest.raises(NothingToDoError):
        read_series(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"a":1}\n')
    with pytest.raises(ConfigError, match="no event file"):
        read_series(tmp_path)


def test_a_folder_whose_other_files_are_damaged_is_read_from_its_events(tmp_path):
    meta = {"event": "run_meta", "t_ns": 0, "seed": 3, "baseline": "fwdllm", "condition": "c", "classes": ["a", "b"]}
    end = {"event": "verdict", "t_ns": S, "verdict": "COMPLETED", "reason": "done"}
    (tmp_path / "events.jsonl").write_text(lines(meta, end))
    (tmp_path / "run.json").write_text("{")
    (tmp_path / "config.yaml").write_text("mode: [")
    facts = read_series(tmp_path).facts
    assert (facts.baseline, facts.seed, facts.verdict, facts.condition) == ("fwdllm", 3, "COMPLETED", "c")
    assert (facts.classes, facts.config, facts.id, facts.label) == (("a", "b"), None, "r", "fwdllm")
