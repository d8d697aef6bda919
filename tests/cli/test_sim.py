"""sim run, plan and check-determinism."""

import csv
import signal
import subprocess
import sys

import pytest

from fluxctl.runs.index import list_runs
from fluxctl.telemetry.hashing import canonical_hash

TINY = [
    "--run-set", "smoke", "--only", "fluxtune", "--model", "tiny", "--data", "synthetic", "--max-bins", "2",
    "--set", "data.train_per_class=60", "--set", "data.test_per_class=10",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("FLUXCTL_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def starving_trace(tmp_path):
    """Everybody is there for 30 s, and one comes back after the budget of 80 s."""
    lines = [f"{client},{t},{state}" for client in range(10) for t, state in ((0, "AVL_TRAIN"), (30, "UN_AVL"))]
    lines.insert(2, "0,500,AVL_TRAIN")
    (tmp_path / "away.csv").write_text("client,t_s,state\n" + "\n".join(lines) + "\n")
    path = tmp_path / "away.yaml"
    path.write_text(f"description: d\nkind: file\npath: {tmp_path / 'away.csv'}\nexhaustion: hold\nhorizon_s: 1000\n")
    return ["--trace", path, "--set", "availability.knowledge=oracular", "--set", "delays.factor=0.1"]


def test_a_run_in_this_process_is_a_normal_run(fluxctl, tmp_path):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    answer = fluxctl("sim", "run", *TINY, "--no-progress")
    assert answer.code == 0, answer.err
    (info,) = list_runs(tmp_path / "runs")
    assert (info.status, info.record.mode, info.record.baseline) == ("ended", "sim", "fluxtune")
    assert info.fields()["bins"] == 2
    assert info.fields()["hash"] == canonical_hash(info.folder.events)
    row = next(line.split() for line in answer.out.splitlines() if line.startswith("fluxtune"))
    assert row[:4] == ["fluxtune", "sim", "COMPLETED", "2"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    told = fluxctl("sim", "run", *TINY, "--json").envelope
    assert (told["command"], told["status"], told["error"]) == ("sim run", "ok", None)
    assert told["data"]["run"]["hash"] == info.fields()["hash"]


def test_a_run_that_breaks_says_so_and_keeps_its_traceback_to_the_log(fluxctl, tmp_path):
    answer = fluxctl("sim", "run", *TINY, "--set", "engine.fault_client=3", "--no-progress")
    assert answer.code == 3
    assert "error: the trainer of client 3 raised" in answer.err
    assert "Traceback" not in answer.err
    (info,) = list_runs(tmp_path / "runs")
    assert "InjectedFaultError" in info.folder.log.read_text()
    told = fluxctl("sim", "run", *TINY, "--set", "engine.fault_client=3", "--json")
    assert (told.code, told.envelope["status"], told.envelope["error"]["code"]) == (3, "error", "trainer_failed")


@pytest.mark.feature("F23")
def test_a_plan_starves_with_the_reason_of_the_run(fluxctl, tmp_path):
    args = [*TINY, *starving_trace(tmp_path), "--max-bins", "400"]
    planned = fluxctl("sim", "plan", *args, "--json")
    run = fluxctl("sim", "run", *args, "--json")
    assert (planned.code, run.code) == (1, 1)
    (plan,) = planned.envelope["data"]["plans"]
    told = run.envelope["data"]["run"]
    assert (plan["verdict"], plan["reason"]) == (told["verdict"], told["reason"])
    assert plan["reason"] == (
        "no client can train before the budget of 80 engine seconds ends; the next one is reachable at 500 s"
    )


@pytest.mark.feature("F23")
def test_a_plan_has_a_row_per_baseline_and_a_series(fluxctl, tmp_path):
    answer = fluxctl(
        "sim", "plan", "--run-set", "smoke", "--only", "fwdllm,fluxtune", "--trace", "syn_50", "--until", "1h",
        "--aggregation-goal", "3", "--max-updates", "2000", "--csv", "series.csv",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "the plan looks no further than 3600 s (sampled" in answer.out
    with (tmp_path / "series.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["baseline"] for row in rows} == {"fwdllm", "fluxtune"}
    assert all(0 <= float(row["reachable"]) <= 10 for row in rows)
    assert any(row["cycles"] and float(row["cycles"]) > 0 for row in rows)
    assert not (tmp_path / "runs").exists()


@pytest.mark.feature("F23")
def test_a_plan_as_json_counts_bytes_of_real_messages(fluxctl):
    told = fluxctl("sim", "plan", *TINY, "--cycles-per-bin", "4", "--json").envelope
    (plan,) = told["data"]["plans"]
    assert (told["command"], told["status"], plan["is_sampled"]) == ("sim plan", "ok", False)
    assert plan["totals"]["bins"] == 2
    assert plan["totals"]["bytes_up"] == plan["totals"]["updates"] * (40 + 4 * plan["num_params"] + 24)
    assert plan["per_hour"]["cycles"] == pytest.approx(8 * 3600 / plan["engine_s"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["plan"], "nothing to run"),
        (["plan", "--run-set", "smoke", "--trace", "syn_21"], "did you mean 'syn_20'"),
        (["plan", "--run-set", "smoke", "--until", "soon"], "--until soon"),
        (["plan", "--run-set", "smoke", "--model", "tinny"], "did you mean 'tiny'"),
        (["plan", "--run-set", "smoke", "--set", "server.lrr=1"], "did you mean 'lr'"),
        (["plan", "--run-set", "smoke", "--csv", "no/such/x.csv"], "cannot write the file"),
        (["plan", "--run-set", "smoke", "--cycles-per-bin", "0"], "'--cycles-per-bin'"),
        (["run"], "nothing to run"),
        (["run", "--run-set", "smoke"], "choose one with --only"),
        (["run", "--run-set", "smoke", "--only", "fluxtun"], "did you mean 'fluxtune'"),
        (["check-determinism", "--run-set", "smok"], "did you mean 'smoke'"),
        (["trac"], "Did you mean 'trace'"),
    ],
)
def test_mistakes(fluxctl, tmp_path, args, message):
    answer = fluxctl("sim", *args)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    told = fluxctl("sim", *args, "--json")
    assert (told.code, told.envelope["command"], told.envelope["status"]) == (2, "sim", "error")
    assert not (tmp_path / "runs").exists()


def test_a_malformed_trace_is_told_with_its_line(fluxctl, tmp_path):
    (tmp_path / "t.csv").write_text("client,t_s,state\n0,0,AVL_TRAIN\n0,5,ASLEEP\n")
    answer = fluxctl("sim", "plan", "--run-set", "smoke", "--trace", "t.csv")
    assert answer.code == 2
    assert "t.csv:3" in answer.err
    assert "unknown state 'ASLEEP'" in answer.err


@pytest.mark.parametrize(
    "args", [["sim"], ["sim", "plan"], ["sim", "sweep"], ["sim", "trace"], ["sim", "run"]], ids=" ".join
)
def test_help_needs_no_torch(args, tmp_path):
    code = "import sys; from fluxctl.cli import main; main([*sys.argv[1:], '--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *args], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: fluxctl sim" in done.stdout


# Two engines that write events; the second run differs from the first where FAKE_DIFFERENCE says.
DETERMINISM_ENGINE = r"""
import json, os, sys
folder = sys.argv[1]
seen = os.path.join(os.path.dirname(folder), ".second")
is_second = os.path.exists(seen)
open(seen, "w").close()
header = {"event": "header", "schema_version": 1, "identity": {"run": folder}, "config_hash": "c"}
lines = [header] + [{"event": "control", "t_ns": n, "goal": n, "wall": {"s": is_second}} for n in range(9)]
if is_second and os.environ.get("FAKE_DIFFERENCE"):
    lines[6]["goal"] = -1
with open(folder + "/events.jsonl", "w") as file:
    file.writelines(json.dumps(line) + "\n" for line in lines)
verdict = {"schema_version": 1, "verdict": os.environ.get("FAKE_VERDICT", "COMPLETED"), "reason": "r", "exit_code": 0}
with open(folder + "/verdict.json", "w") as file:
    json.dump(verdict, file)
"""


@pytest.fixture
def twin_engine(monkeypatch):
    monkeypatch.setattr(
        "fluxctl.commands._starter.engine_command",
        lambda folder: [sys.executable, "-I", "-S", "-c", DETERMINISM_ENGINE, str(folder.path)],
    )


@pytest.mark.feature("D0j")
def test_the_first_differing_event_is_shown_with_both_sides(fluxctl, twin_engine, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_DIFFERENCE", "1")
    answer = fluxctl("sim", "check-determinism", "--no-progress", "--context", "2")
    assert answer.code == 1
    lines = [line for line in answer.out.splitlines() if line]
    assert lines[0] == "FAIL  fluxtune: the runs differ"
    assert lines[1] == "they first differ at event 6 in goal"
    assert [line[:4] for line in lines[2:4]] == ["    ", "    "]
    assert '"goal":3' in lines[2]
    shown = "\n".join(lines)
    assert '  - {"event":"control","t_ns":5,"goal":5}' in shown
    assert '  + {"event":"control","t_ns":5,"goal":-1}' in shown
    assert len(list_runs(tmp_path / "runs")) == 2


@pytest.mark.feature("D0j")
@pytest.mark.parametrize(("difference", "code", "status"), [("", 0, "ok"), ("1", 1, "no")])
def test_determinism_as_json(fluxctl, twin_engine, monkeypatch, difference, code, status):
    monkeypatch.setenv("FAKE_DIFFERENCE", difference)
    answer = fluxctl("sim", "check-determinism", "--json")
    assert (answer.code, answer.envelope["status"]) == (code, status)
    (pair,) = answer.envelope["data"]["pairs"]
    assert pair["equal"] == (code == 0) == (len(set(pair["hashes"])) == 1)
    if code:
        assert (pair["difference"]["index"], pair["difference"]["paths"]) == (6, ["goal"])


def test_two_runs_that_starve_alike_are_deterministic(fluxctl, twin_engine, monkeypatch):
    monkeypatch.setenv("FAKE_VERDICT", "STARVED")
    assert fluxctl("sim", "check-determinism", "--no-progress").code == 0


def test_a_run_that_breaks_is_no_answer(fluxctl, engine):
    engine(smoke={"dies": 1})
    answer = fluxctl("sim", "check-determinism", "--no-progress")
    assert answer.code == 3
    assert answer.out == ""


@pytest.mark.feature("D0j")
def test_real_engines_agree_whatever_their_number_of_threads(fluxctl, tmp_path):
    answer = fluxctl("sim", "check-determinism", "--max-bins", "2", "--jobs", "2", "--no-progress")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("PASS  fluxtune: both runs have hash ")
    texts = [info.folder.config.read_text() for info in list_runs(tmp_path / "runs")]
    assert sorted("num_workers: 3" in text for text in texts) == [False, True]
