"""watch through the command line: real runs of the engine, replayed and guarded."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from fluxctl.config.load import resolve
from fluxctl.config.override import from_set
from fluxctl.engine.session import main
from fluxctl.runs.index import list_runs
from fluxctl.runs.layout import create_run
from fluxctl.runs.records import ProcessMark, VerdictRecord
from fluxctl.types import Verdict

TINY = [
    "model.name=tiny", "model.adapter_dim=4", "data.source=synthetic", "data.train_per_class=30",
    "data.test_per_class=10", "clients.num_clients=8", "aggregation.goal=3", "aggregation.concurrency=3",
    "delays.model=uniform", "delays.low_s=1.0", "delays.high_s=10.0", "gate.stopping_policy=fixed_cap",
    "gate.max_iterations_per_bin=1", "engine.num_workers=1",
]  # fmt: skip
LAUNCH = ["launch", "--only", "fwdllm", *[part for text in TINY for part in ("--set", text)], "--yes"]
NS = 1_000_000_000


@pytest.fixture(scope="module", autouse=True)
def _private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLUXCTL_CACHE_DIR", str(tmp_path_factory.mktemp("features")))
        yield


@pytest.fixture
def ran(tmp_path):
    """A run that has ended, by the engine in this process."""

    def run(*sets):
        folder = create_run(tmp_path / "runs", resolve([], [from_set(text) for text in (*TINY, *sets)]))
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            main([str(folder.path)])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return folder

    return run


ENDS = [
    (["limits.max_bins=4"], "COMPLETED", "max_bins", 0),
    (["limits.max_runtime_s=40"], "COMPLETED", "max_runtime", 0),
    (["limits.max_bins=4", "limits.target_accuracy=0.99"], "DID_NOT_CONVERGE", "max_bins", 1),
    (["limits.target_accuracy=0.05", "limits.converge_window=3", "limits.max_bins=30"], "CONVERGED", "target", 0),
    (["limits.stall_window_s=30", "limits.stall_min_delta=1.0", "limits.stall_on=acc"], "STALLED", "stall", 1),
    (["server.lr=1e6", "limits.max_bins=30"], "DIVERGED", "divergence", 1),
]


@pytest.mark.feature("E25", "A23", "E12")
@pytest.mark.parametrize(("sets", "verdict", "rule", "code"), ENDS, ids=[f"{v}-{r}" for _, v, r, _ in ENDS])
def test_a_replay_gives_the_verdict_of_the_run_at_its_event(fluxctl, ran, tmp_path, sets, verdict, rule, code):
    ran(*sets)
    (info,) = list_runs(tmp_path / "runs")
    answer = fluxctl("watch", "--json")
    told = answer.envelope["data"]
    assert (answer.code, told["verdict"], told["recorded"]) == (code, verdict, verdict)
    assert (told["rule"], told["reason"]) == (rule, info.verdict.reason)
    lines = info.folder.events.read_text().splitlines()
    event = json.loads(lines[told["at_event"]["line"] - 1])
    assert (event["event"], event["t_ns"]) == (told["at_event"]["event"], told["at_event"]["t_ns"])
    evaluations = [json.loads(line) for line in lines if line.startswith('{"event":"agg_eval"')]
    assert told["at_event"]["t_ns"] == json.loads(lines[-1])["t_ns"]  # the run ended there and then
    assert told["at_event"]["bins"] == evaluations[-1]["version"] == info.verdict.summary["bins"]
    assert told["is_live"] is told["has_stopped"] is False


@pytest.mark.feature("E31")
def test_converge_json(ran, tmp_path):
    ran("limits.target_accuracy=0.05", "limits.converge_window=3", "limits.max_bins=30")
    (info,) = list_runs(tmp_path / "runs")
    told = json.loads(info.folder.converge.read_text())
    lines = info.folder.events.read_text().splitlines()
    evaluations = [json.loads(line) for line in lines if line.startswith('{"event":"agg_eval"')]
    accuracies = [event["test_accuracy"] for event in evaluations]
    assert (told["target_accuracy"], told["converge_window"]) == (0.05, 3)
    assert (told["first_bin"], told["trigger_bin"]) == (told["trigger_bin"] - 2, info.verdict.summary["bins"])
    assert told["engine_s"] == evaluations[-1]["t_ns"] / NS == info.verdict.summary["engine_s"]
    assert told["first_engine_s"] == evaluations[-3]["t_ns"] / NS
    assert told["wall_s"] == info.verdict.summary["wall_s"] > 0
    assert told["window_accuracies"] == accuracies[-3:]
    assert (told["accuracy"], told["best_accuracy"]) == (accuracies[-1], max(accuracies))
    assert [item["accuracy"] for item in told["running_best"]][-1] == max(accuracies)
    assert not info.folder.stall.exists()


@pytest.mark.feature("E32", "E12")
def test_stall_json(fluxctl, tmp_path):
    answer = fluxctl(*LAUNCH, "--stall-window", "30s", "--stall-min-delta", "1", "--stall-on", "acc")
    assert answer.code == 0  # a finding
    assert "STALLED" in answer.out
    (info,) = list_runs(tmp_path / "runs")
    told = json.loads(info.folder.stall.read_text())
    assert (told["stall_on"], told["stall_window_s"], told["stall_min_delta"]) == ("acc", 30.0, 1.0)
    assert told["idle_s"] == told["engine_s"] - told["last_progress_engine_s"] >= 30.0
    ((signal_name, found),) = told["signals"].items()
    assert signal_name == "acc"
    assert found["milestone_engine_s"] == 0.0
    assert found["best"] >= found["milestone"]
    assert found["next_milestone"] == pytest.approx(found["milestone"] + 1)
    assert "no progress for" in info.verdict.reason
    assert not info.folder.converge.exists()


@pytest.mark.feature("E12")
def test_other_rules_over_a_finished_run(fluxctl, ran, tmp_path):
    ran("limits.max_bins=8")
    answer = fluxctl("watch", "latest", "--stall-window", "10s", "--stall-on", "acc", "--stall-min-delta", "1")
    assert answer.code == 1
    assert "STALLED: no progress for" in answer.out
    assert "of events.jsonl, bin" in answer.out
    assert "recorded: COMPLETED" in answer.out
    assert fluxctl("watch", "--target-acc", "0.05", "--converge-window", "1").code == 0
    (info,) = list_runs(tmp_path / "runs")
    assert info.verdict.verdict is Verdict.COMPLETED
    assert not info.folder.stop.exists()


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A run that claims to be alive, and a way to add events to it."""
    monkeypatch.chdir(tmp_path)
    settings = ["limits.stall_window_s=100.0", "limits.target_accuracy=0.9", "limits.max_bins=50"]
    run = create_run(tmp_path / "runs", resolve([], [from_set(text) for text in settings]))
    run.mark_running(ProcessMark.of())
    events = [{"event": "header", "schema_version": 1}]
    for bins, (t_s, accuracy) in enumerate([(0, 0.2), (30, 0.5), (60, 0.501)]):
        events.append({"event": "agg_eval", "t_ns": t_s * NS, "round": 0, "version": bins, "test_accuracy": accuracy,
                       "test_loss": 1.0, "mcc": 0.0, "predicted_counts": [1, 1]})  # fmt: skip
    events.append({"event": "agg_round", "t_ns": 70 * NS})
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


def test_once_looks_and_goes(fluxctl, live):
    answer = fluxctl("watch", "--once")
    assert answer.code == 0
    assert "bin 2, accuracy 0.501 (best 0.501), loss 1, engine 60 s, last progress 30 s ago" in answer.out
    assert f"{live.id} goes on" in answer.out
    told = fluxctl("watch", "--once", "--json").envelope
    assert (told["status"], told["data"]["verdict"], told["data"]["is_live"]) == ("ok", None, True)
    whens = {item["verdict"]: item["when"] for item in told["data"]["prospects"]}
    assert whens["STALLED"].startswith("at 2 min 10 s of engine time, in 70 s, unless accuracy reaches 0.510 or loss")
    assert fluxctl("watch", "--once", "--stall-window", "20s").code == 1
    assert not live.stop.exists()


def test_no_stop_only_reports(fluxctl, live, monkeypatch):
    monkeypatch.setattr("fluxctl.commands.watch._GRACE_S", 0.1)
    answer = fluxctl("watch", "--no-stop", "--stall-window", "20s")
    assert answer.code == 1
    assert "STALLED: no progress for 30 s" in answer.out
    assert not live.stop.exists()


@pytest.mark.feature("E25")
def test_a_rule_that_fires_stops_a_live_run_and_says_so(fluxctl, live, monkeypatch):
    monkeypatch.setattr("fluxctl.commands.watch._GRACE_S", 0.1)
    monkeypatch.setattr("fluxctl.commands.watch._STOP_WAIT_S", 0.3)
    answer = fluxctl("--quiet", "watch", "--stall-window", "20s")
    assert answer.code == 1
    assert f"STOPPING {live.id}: STALLED: no progress for" in answer.err
    assert live.stop.read_text().startswith("STALLED: no progress for")
    assert "(stopped by fluxctl watch)" in live.stop.read_text()
    assert "has not ended" in answer.err  # nobody is there to obey


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.COMPLETED, 0),
        (Verdict.STARVED, 1),
        (Verdict.INTERRUPTED, 1),
        (Verdict.CRASHED, 3),
        (Verdict.BLOCKED, 2),
    ],
)
def test_an_ended_run_without_a_rule_answers_by_its_verdict(fluxctl, live, verdict, code):
    live.write_verdict(VerdictRecord(verdict, "told by the run"))
    answer = fluxctl("watch")
    assert answer.code == code
    assert f"{verdict.value}: told by the run" in answer.out


def test_a_run_that_wrote_nothing(fluxctl, live):
    live.events.unlink()
    assert "no evaluation yet" in fluxctl("watch", "--once").out
    live.write_verdict(VerdictRecord(Verdict.CRASHED, "at start", 3))
    assert fluxctl("watch", "--json").envelope["data"]["at_event"] is None


def test_no_run_is_5_and_nonsense_is_2(fluxctl, live):
    assert fluxctl("watch", "--runs-dir", "elsewhere").code == 5
    assert fluxctl("watch", "nobody").code == 2
    answer = fluxctl("watch", "--once", "--target-acc", "1.5")
    assert answer.code == 2
    assert "--> --target-acc 1.5" in answer.err


def engine_processes(folder):
    marks = [info.record.process for info in list_runs(folder)]
    return [mark.pid for mark in marks if mark is not None and not mark.is_gone()]


ENDLESS = ["--max-runtime", "1000d", "--set", "limits.max_wall_s=1e6", "--set", "limits.divergence_guard=false"]


def start(tmp_path, *args):
    """A launch in a process of its own, in training."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fluxctl.cli", *LAUNCH, *ENDLESS, *args],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for info in list_runs(tmp_path / "runs"):
            if info.folder.events.exists() and info.folder.events.stat().st_size > 5000:
                return process, info.folder
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the run did not start to train")


@pytest.mark.feature("E22", "A23")
@pytest.mark.parametrize("mode", ["sim", "real"])
def test_no_engine_outlives_a_supervisor_that_was_killed(fluxctl, tmp_path, mode):
    process, run = start(tmp_path, "--mode", mode, "--set", "engine.wall_factor=100")
    (pid,) = engine_processes(tmp_path / "runs")
    engine = psutil.Process(pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    engine.wait(5)
    assert engine_processes(tmp_path / "runs") == []
    (info,) = list_runs(tmp_path / "runs")
    assert (info.verdict.verdict, info.verdict.reason) == (Verdict.INTERRUPTED, "the supervisor is gone")
    assert info.status == info.record.status == "ended"
    assert json.loads(run.events.read_text().splitlines()[-1])["event"] == "verdict"


@pytest.mark.feature("E25")
def test_watch_ends_a_real_run(fluxctl, tmp_path):
    process, run = start(tmp_path)
    answer = fluxctl("watch", "--stall-window", "10s", "--stall-on", "acc", "--stall-min-delta", "1", "--json")
    assert process.wait(20) == 0  # STALLED is a result
    told = answer.envelope["data"]
    assert (answer.code, told["verdict"], told["has_stopped"], told["recorded"]) == (1, "STALLED", True, "STALLED")
    verdict = run.read_verdict()
    assert verdict.reason.startswith("no progress for")
    assert verdict.reason.endswith("(stopped by fluxctl watch)")
    assert json.loads(run.events.read_text().splitlines()[-1])["verdict"] == "STALLED"
    stalled = json.loads(run.stall.read_text())
    assert (stalled["stall_window_s"], stalled["stall_on"]) == (10.0, "acc")
    assert stalled["idle_s"] >= 10
