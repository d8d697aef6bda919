"""launch against a fake engine: plans, supervision, results and exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fluxctl.config.load import read_config
from fluxctl.runs.index import list_runs

SMOKE = ["launch", "--run-set", "smoke", "--yes"]


def runs(tmp_path):
    return list_runs(tmp_path / "runs")


def configs(tmp_path):
    return [read_config(info.folder.config) for info in runs(tmp_path)]


@pytest.mark.feature("E13")
def test_a_run_set_runs_its_baselines_in_order(fluxctl, engine, tmp_path):
    answer = fluxctl(*SMOKE)
    assert answer.code == 0
    assert [info.record.baseline for info in runs(tmp_path)] == ["fwdllm", "fwdllm_plus", "fluxtune"]
    for info, resolved in zip(runs(tmp_path), configs(tmp_path), strict=True):
        assert (info.record.run_set, info.record.mode, info.status) == ("smoke", "sim", "ended")
        assert resolved.config.clients.num_clients == 10
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("fluxtune")]
    assert rows[0][:3] == ["fluxtune", "sim", "CONVERGED"]
    assert "Traceback" not in answer.err


@pytest.mark.feature("E1")
def test_both_runs_every_baseline_on_either_clock_as_a_pair(fluxctl, engine, tmp_path):
    assert fluxctl(*SMOKE, "--mode", "both", "--only", "fwdllm,fluxtune").code == 0
    records = [info.record for info in runs(tmp_path)]
    pairs = {}
    for record in records:
        pairs.setdefault(record.pair, []).append(record)
    assert len(pairs) == 2
    assert None not in pairs
    for pair in pairs.values():
        assert sorted(record.mode for record in pair) == ["real", "sim"]
        assert len({record.baseline for record in pair}) == 1
        assert len({record.fingerprints["run"] for record in pair}) == 1
    assert len({record.group for record in records}) == 1
    fluxctl(*SMOKE, "--mode", "real", "--only", "fluxtune")
    last = runs(tmp_path)[-1].record
    assert (last.mode, last.pair) == ("real", None)


@pytest.mark.feature("E15")
def test_the_printed_configuration_is_the_one_that_runs(fluxctl, engine, tmp_path):
    args = [*SMOKE, "--only", "fluxtune", "--set", "server.lr=0.5", "--max-bins", "9"]
    planned = fluxctl(*args, "--dry-run", "--json").envelope["data"]["runs"][0]
    fluxctl(*args)
    (resolved,) = configs(tmp_path)
    assert resolved.config.model_dump(mode="json") == planned["config"]
    assert runs(tmp_path)[0].record.fingerprints == planned["fingerprints"]
    text = runs(tmp_path)[0].folder.config.read_text()
    for origin in ("# --set |", "# flag --max-bins |", "# presets/run_sets/smoke.yaml:", "# default |"):
        assert origin in text


@pytest.mark.feature("G2")
def test_effective_policies_are_printed_at_start_and_stored(fluxctl, engine, tmp_path):
    answer = fluxctl(*SMOKE, "--agg-rate-type", "old")
    line = next(line for line in answer.err.splitlines() if "plateau(3, 0.15) + cap 20" in line)
    assert line.split()[-2:] == ["old", "downweight"]
    assert all(resolved.config.aggregation.rate.name == "old" for resolved in configs(tmp_path))


def test_a_file_lies_between_run_set_and_set(fluxctl, engine, tmp_path):
    (tmp_path / "x.yaml").write_text("server: {lr: 0.5}\nlimits: {max_bins: 5}\n")
    args = [*SMOKE, "--only", "fwdllm", "--file", "x.yaml", "--set", "server.lr=0.25", "--dry-run", "--json"]
    (run,) = fluxctl(*args).envelope["data"]["runs"]
    assert (run["config"]["limits"]["max_bins"], run["origins"]["limits.max_bins"]) == (5, "x.yaml:2")
    assert run["config"]["server"]["lr"] == 0.25


def test_the_saved_configuration_of_a_run_runs_again(fluxctl, engine, tmp_path):
    fluxctl(*SMOKE, "--only", "fluxtune", "--seed", "3")
    answer = fluxctl("launch", "--file", "runs/latest/config.yaml", "--yes")
    assert answer.code == 0
    first, second = runs(tmp_path)
    assert first.record.fingerprints == second.record.fingerprints


@pytest.mark.feature("E19")
def test_a_users_own_run_set(fluxctl, engine, tmp_path):
    (tmp_path / "mine.yaml").write_text("description: d\nbaselines: [fwdllm]\ncondition: {seed: 4}\n")
    assert fluxctl("launch", "--run-set", "mine.yaml", "--yes").code == 0
    (info,) = runs(tmp_path)
    assert (info.record.run_set, info.record.seed) == ("mine", 4)


@pytest.mark.feature("B24")
@pytest.mark.parametrize(("text", "seeds"), [("0..2", [0, 1, 2]), ("0,5,2", [0, 5, 2]), ("1..2,7,2", [1, 2, 7])])
def test_seeds_expand_in_order(fluxctl, engine, tmp_path, text, seeds):
    assert fluxctl(*SMOKE, "--only", "fluxtune", "--seeds", text).code == 0
    assert [info.record.seed for info in runs(tmp_path)] == seeds
    assert len({info.record.fingerprints["seedless"] for info in runs(tmp_path)}) == 1


@pytest.mark.feature("B24")
def test_seeds_give_a_mean_and_a_confidence_interval(fluxctl, engine, tmp_path, monkeypatch):
    engine(fluxtune={"summary": {"best_accuracy": 0.9, "bins": 100}})
    answer = fluxctl(*SMOKE, "--only", "fluxtune", "--seeds", "0..2")
    assert "95 % confidence interval" in answer.out
    assert "0.900 ± 0.000" in answer.out
    assert "3 CONVERGED" in answer.out
    told = fluxctl(*SMOKE, "--only", "fluxtune", "--seeds", "0..2", "--json").envelope["data"]
    assert told["bands"][0]["best_accuracy"] == {"mean": pytest.approx(0.9), "half_width": pytest.approx(0), "num": 3}


@pytest.mark.parametrize(
    ("plans", "args", "code"),
    [
        ({}, [], 0),
        ({"fwdllm-": {"verdict": {"verdict": "DID_NOT_CONVERGE", "exit_code": 1}}}, [], 0),
        ({"fwdllm-": {"verdict": {"verdict": "DID_NOT_CONVERGE"}}}, ["--require-converged"], 1),
        ({}, ["--require-converged"], 0),
        ({"fwdllm-": {"verdict": {"verdict": "STALLED"}}}, [], 0),
        ({"fwdllm-": {"verdict": {"verdict": "COMPLETED"}}}, [], 0),
        ({"fwdllm-": {"verdict": {"verdict": "DIVERGED"}}}, [], 1),
        ({"fwdllm-": {"verdict": {"verdict": "STARVED"}}}, [], 1),
        ({"fwdllm-": {"verdict": {"verdict": "NO_ROUNDS"}}}, [], 3),
        ({"fwdllm-": {"dies": 1}}, [], 3),
        ({"fwdllm-": {"verdict": {"verdict": "DIVERGED"}}, "plus": {"dies": 1}}, [], 3),
        ({"plus": {"dies": 1}, "fluxtune": {"verdict": {"verdict": "DIVERGED"}}}, [], 3),
    ],
)
def test_exit_codes_over_several_runs(fluxctl, engine, tmp_path, plans, args, code):
    engine(**plans)
    assert fluxctl(*SMOKE, *args).code == code
    assert len(runs(tmp_path)) == 3


def test_a_request_that_every_run_would_refuse_stops_the_launch(fluxctl, engine, tmp_path):
    error = {
        "code": "asset",
        "message": "no MiniLM",
        "hint": "pip install 'fluxctl[demo]'",
        "where": None,
        "detail": None,
    }
    engine(fwdllm={"verdict": {"verdict": "CRASHED", "exit_code": 2, "error": error}})
    answer = fluxctl(*SMOKE)
    assert answer.code == 2
    assert "error: no MiniLM" in answer.err
    assert "pip install 'fluxctl[demo]'" in answer.err
    assert "2 runs were not started" in answer.err
    assert len(runs(tmp_path)) == 1


def test_stop_on_fail(fluxctl, engine, tmp_path):
    engine(fwdllm={"dies": "no such thing"})
    answer = fluxctl(*SMOKE, "--stop-on-fail")
    assert (answer.code, len(runs(tmp_path))) == (3, 1)
    assert "no such thing" in answer.err  # the end of its log


@pytest.mark.feature("G6")
def test_json_lines_end_with_the_envelope(fluxctl, engine):
    engine(**{"fwdllm-": {"dies": 1}})
    answer = fluxctl(*SMOKE, "--json")
    lines = [json.loads(line) for line in answer.out.splitlines()]
    assert [line.get("event") for line in lines if line.get("event") != "progress"] == [
        "plan", *["run_started", "run_ended"] * 3, None,
    ]  # fmt: skip
    told = lines[-1]
    assert (told["command"], told["status"], answer.code) == ("launch", "error", 3)
    assert told["error"]["code"] == "run_broke"
    public = {"id", "baseline", "mode", "seed", "verdict", "bins", "cycles", "best_accuracy", "final_accuracy",
              "engine_s", "wall_s", "sim_rate", "forward_passes", "bytes_down", "bytes_up", "hash"}  # fmt: skip
    for row in told["data"]["runs"]:
        assert public <= set(row)
    assert told["data"]["runs"][1]["forward_passes"] == 1234567
    assert told["data"]["runs"][0]["bins"] is None


@pytest.mark.feature("G6")
@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_tables_fit_the_screen_and_cut_no_number(fluxctl, engine, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = fluxctl(*SMOKE)
    assert max(map(len, answer.out.splitlines())) <= columns
    for cell in (
        "120",
        "0.876",
        "0.812",
        "9.5 h",
        "61.0 s",
        "561",
        "1,234,567",
        "123.5",
        "23.5",
        "CONVERGED",
        "fwdllm_plus",
    ):
        assert cell in answer.out, cell
    assert "…" not in answer.out
    assert "\x1b" not in answer.out + answer.err


def test_the_readme_shows_the_table_that_is_printed(fluxctl, engine):
    """Of the finished main: its columns in their order."""
    page = (Path(__file__).parents[2] / "README.md").read_text()
    shown = next(block for block in page.split("```")[1::2] if "DID_NOT_CONVERGE" in block)

    def titles(text):
        heads = "  ".join(line for line in text.splitlines() if line.startswith("baseline"))
        return [title for title in re.split(r"  +", heads) if title not in ("baseline", "mode")]

    assert titles(shown) == titles(fluxctl(*SMOKE).out)


@pytest.mark.feature("A27")
def test_without_a_terminal_milestones_are_lines(fluxctl, engine):
    answer = fluxctl(*SMOKE, "--only", "fluxtune")
    assert "fluxtune sim seed 0: started as " in answer.err
    assert "bins 3/" in answer.err
    assert "CONVERGED: held the target" in answer.err
    assert "started as" not in answer.out
    assert len(answer.err.partition("PASS")[2].splitlines()) < 10  # behind the gate's tables


@pytest.mark.parametrize("args", [["--no-progress"], []])
def test_progress_can_be_silenced(fluxctl, engine, monkeypatch, args):
    if not args:
        monkeypatch.setenv("FLUXCTL_NO_PROGRESS", "1")
    assert "started as" not in fluxctl(*SMOKE, "--only", "fluxtune", *args).err


def test_quiet_says_only_the_results(fluxctl, engine):
    answer = fluxctl("-q", *SMOKE)
    assert answer.err == ""
    assert "CONVERGED" in answer.out


def test_several_runs_at_a_time_keep_the_order_of_the_plan(fluxctl, engine):
    told = fluxctl(*SMOKE, "--jobs", "3", "--json").envelope["data"]["runs"]
    assert [row["baseline"] for row in told] == ["fwdllm", "fwdllm_plus", "fluxtune"]


def test_runs_can_live_elsewhere(fluxctl, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FLUXCTL_RUNS_DIR", str(tmp_path / "env"))
    fluxctl(*SMOKE, "--only", "fwdllm")
    fluxctl(*SMOKE, "--only", "fwdllm", "--runs-dir", tmp_path / "flag")
    assert [len(list_runs(tmp_path / name)) for name in ("env", "flag", "runs")] == [1, 1, 0]


@pytest.mark.feature("E20")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_cleanly_and_leaves_no_process(tmp_path, number, code):
    conftest = Path(__file__).with_name("conftest.py")
    program = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("fake", {str(conftest)!r})
fake = importlib.util.module_from_spec(spec)
sys.modules["fake"] = fake
spec.loader.exec_module(fake)
import fluxctl.commands._starter as starter
starter.engine_command = lambda folder: [sys.executable, "-I", "-S", "-c", fake.FAKE_ENGINE, str(folder.path)]
starter.standby_command = lambda folder: None
from fluxctl.cli import main
sys.exit(main(["launch", "--run-set", "smoke", "--yes", "--json"]))
"""
    plan = {"smoke": {"waits": True, "verdict": {"verdict": "INTERRUPTED", "exit_code": 130}}}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ, "FAKE_ENGINE": json.dumps(plan)},
    )  # fmt: skip
    with process:
        for line in process.stdout:
            if '"run_started"' in line:
                break
        time.sleep(0.2)
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(20) == code
    told = json.loads(rest.splitlines()[-1])
    assert (told["status"], told["data"]["num_not_started"]) == ("error", 2)
    assert told["data"]["again"] == ["fluxctl launch --run-set smoke --yes --json"]
    (info,) = runs(tmp_path)
    assert info.verdict.verdict == "INTERRUPTED"
    assert info.record.process.is_gone()
