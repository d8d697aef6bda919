"""launch against a fake engine: plans, supervision, results and exit codes."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from fluxctl import wall
from fluxctl.commands._progress import Panel
from fluxctl.commands._request import Request, make_plan
from fluxctl.commands._run_state import RunState
from fluxctl.config.load import read_config
from fluxctl.errors import ConfigError, NothingToDoError
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


FLAGS = [
    pytest.param(["--delay-factor", "4"], "delays.factor", 4.0, marks=pytest.mark.feature("E3")),
    pytest.param(["--delays", "off"], "delays.enabled", False),
    pytest.param(["--max-runtime", "1d2h"], "limits.max_runtime_s", 93600.0, marks=pytest.mark.feature("E4")),
    pytest.param(["--max-runtime", "90s"], "limits.max_runtime_s", 90.0, marks=pytest.mark.feature("E4")),
    pytest.param(["--max-runtime", "3600"], "limits.max_runtime_s", 3600.0, marks=pytest.mark.feature("E4")),
    pytest.param(["--max-bins", "7"], "limits.max_bins", 7, marks=pytest.mark.feature("E5")),
    pytest.param(["--clients", "12"], "clients.num_clients", 12, marks=pytest.mark.feature("E6")),
    pytest.param(["--min-clients", "9"], "clients.min_clients", 9, marks=pytest.mark.feature("E6")),
    pytest.param(["--aggregation-goal", "4"], "aggregation.goal", 4, marks=pytest.mark.feature("E6")),
    pytest.param(["--concurrency", "8"], "aggregation.concurrency", 8, marks=pytest.mark.feature("E6")),
    pytest.param(["--partition", "uniform"], "partition.method", "uniform", marks=pytest.mark.feature("E7")),
    pytest.param(["--partition", "dirichlet:0.1"], "partition.alpha", 0.1, marks=pytest.mark.feature("E7")),
    pytest.param(["--var-threshold", "0.1"], "gate.var_threshold", 0.1, marks=pytest.mark.feature("E9")),
    pytest.param(["--max-iterations-per-bin", "5"], "gate.max_iterations_per_bin", 5, marks=pytest.mark.feature("E9")),
    pytest.param(["--var-stopping-policy", "off"], "gate.stopping_policy", "off", marks=pytest.mark.feature("E10")),
    pytest.param(["--agg-rate-type", "old"], "aggregation.rate.name", "old", marks=pytest.mark.feature("E10")),
    pytest.param(["--target-acc", "0.7"], "limits.target_accuracy", 0.7, marks=pytest.mark.feature("E11")),
    pytest.param(["--converge-window", "3"], "limits.converge_window", 3, marks=pytest.mark.feature("E11")),
    pytest.param(["--seed", "5"], "seed", 5),
    pytest.param(["--model", "tiny"], "model.name", "tiny"),
    pytest.param(["--data", "synthetic"], "data.source", "synthetic"),
]


@pytest.mark.parametrize(("args", "path", "value"), FLAGS)
def test_each_flag_sets_its_value_and_wins_over_everything(fluxctl, engine, tmp_path, args, path, value, monkeypatch):
    monkeypatch.setenv("FLUXCTL_SET_LIMITS__MAX_BINS", "3")
    answer = fluxctl(*SMOKE, "--only", "fluxtune", "--set", "limits.max_bins=4", *args, "--dry-run", "--json")
    assert answer.code == 0
    (run,) = answer.envelope["data"]["runs"]
    found = run["config"]
    for part in path.split("."):
        found = found[part]
    assert found == value
    assert run["origins"][path].startswith("flag --")
    if path != "limits.max_bins":
        assert (run["config"]["limits"]["max_bins"], run["origins"]["limits.max_bins"]) == (4, "--set")
    assert not (tmp_path / "runs").exists()


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
    (info,) = runs(tmp_path)
    assert info.verdict.verdict == "INTERRUPTED"
    assert info.record.process.is_gone()


@pytest.mark.feature("E8")
def test_a_trace_for_all_sides(fluxctl, tmp_path):
    answer = fluxctl(*SMOKE, "--only", "fluxtune", "--avail-trace", "syn_20", "--dry-run", "--json")
    (run,) = answer.envelope["data"]["runs"]
    assert (run["config"]["availability"]["trace"], run["config"]["variant"]) == ("syn_20", "")
    assert run["origins"]["availability.trace"] == "flag --avail-trace"
    assert "trace" not in {key for key in run["config"]["availability"] if key != "trace"}  # one value for every side


@pytest.mark.feature("E8")
def test_several_traces_are_several_runs(fluxctl, engine, tmp_path):
    (tmp_path / "mine.yaml").write_text("description: d\nkind: slots\nunavailable_frac: 0.1\n")
    args = ["--only", "fwdllm,fluxtune", "--aggregation-goal", "3", "--max-runtime", "10h"]
    answer = fluxctl(*SMOKE, *args, "--avail-trace", "syn_0,mine.yaml")
    assert answer.code == 0
    found = [(r.config.baseline, r.config.variant, r.config.availability.trace) for r in configs(tmp_path)]
    assert sorted(found) == [
        ("fluxtune", "mine", "mine.yaml"), ("fluxtune", "syn_0", "syn_0"),
        ("fwdllm", "mine", "mine.yaml"), ("fwdllm", "syn_0", "syn_0"),
    ]  # fmt: skip
    assert "fluxtune mine" in answer.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--run-set", "unavailability", "--avail-trace", "syn_20"], "varies the trace itself: syn_20, syn_50"),
        (["--run-set", "smoke", "--avail-trace", "syn_20,./syn_20"], "two traces have the same name"),
        (["--run-set", "smoke", "--avail-trace", "syn_21"], "there is no trace 'syn_21'"),
        (["--run-set", "smoke", "--then", "parety"], "there is no follow-up 'parety'"),
        (["--run-set", "smoke", "--devices", "two"], "'two' is not a number of devices"),
        (["--run-set", "smoke", "--hang-after", "soon"], "'soon' is not a duration"),
    ],
)
def test_new_nonsense_is_refused(fluxctl, tmp_path, args, message):
    answer = fluxctl("launch", *args, "--yes")
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.feature("E6", "E28")
def test_devices_on_a_host_without_any(fluxctl, engine, tmp_path, monkeypatch):
    monkeypatch.setattr("fluxctl.runs.devices._num_present", lambda: 0)
    answer = fluxctl(*SMOKE, "--only", "fwdllm", "--devices", "2", "--dry-run")
    assert answer.code == 2
    assert "2 devices are asked for, and 0 devices are visible here" in answer.out
    assert "--devices cpu, or leave --devices out: everything runs on the CPU" in " ".join(answer.out.split())
    assert fluxctl(*SMOKE, "--only", "fwdllm", "--devices", "cpu").code == 0
    (info,) = runs(tmp_path)
    told = json.loads(info.folder.placement.read_text())
    assert (told["devices"], told["trainers"], told["aggregator"]) == (["cpu"], {"cpu": 10}, "cpu")


@pytest.mark.feature("E6", "E28")
def test_devices_are_placed_and_the_engine_reports_where_it_computes(fluxctl, engine, tmp_path, monkeypatch):
    monkeypatch.setattr("fluxctl.runs.devices._num_present", lambda: 3)
    engine(smoke={"notes": [{"event": "compute", "device": "cpu"}]})
    answer = fluxctl(*SMOKE, "--only", "fluxtune", "--devices", "3")
    assert answer.code == 0
    assert "10 trainers on 3 devices: 4 on some, 3 on others" in " ".join(answer.err.split())
    assert "computes every step on the CPU" in " ".join(answer.err.split())
    assert "fluxtune sim seed 0: steps run on cpu" in answer.err
    told = json.loads(runs(tmp_path)[0].folder.placement.read_text())
    assert told["trainers"] == {"cuda:0": 4, "cuda:1": 3, "cuda:2": 3}
    assert told["aggregator"] == "cuda:2"


def follow_ups(monkeypatch, **codes):
    """Follow-ups that answer so; returns what they were called with."""
    called = []

    def follow(name, answer):
        def run(launched):
            called.append((name, [run.id for run in launched.runs], launched.pairs()))
            if isinstance(answer, Exception):
                raise answer
            yield from answer if isinstance(answer, list) else [answer]

        return run

    found = {name: follow(name, codes.get(name, 0)) for name in ("parity", "sanity", "plot")}
    monkeypatch.setattr("fluxctl.commands._then.FOLLOW_UPS", found)
    return called


@pytest.mark.feature("E14")
@pytest.mark.parametrize(
    ("plans", "answers", "args", "code", "done"),
    [
        ({}, {}, [], 0, ["parity", "sanity", "plot"]),
        ({}, {"parity": [0, 1]}, [], 1, ["parity", "sanity", "plot"]),
        ({}, {"parity": 1, "sanity": 3}, [], 3, ["parity", "sanity", "plot"]),
        ({}, {"parity": 5}, [], 0, ["parity", "sanity", "plot"]),
        ({}, {"parity": ConfigError("cannot")}, [], 2, ["parity", "sanity", "plot"]),
        ({}, {"parity": NothingToDoError("none")}, [], 0, ["parity", "sanity", "plot"]),
        ({"fwdllm-": {"dies": 1}}, {"sanity": 1}, [], 3, ["parity", "sanity", "plot"]),
        ({}, {"sanity": 1}, ["--stop-on-fail"], 1, ["parity", "sanity"]),
        ({"fwdllm-": {"dies": 1}}, {}, ["--stop-on-fail"], 3, []),
        ({"fwdllm-": {"verdict": {"verdict": "DIVERGED"}}}, {}, ["--stop-on-fail"], 1, ["parity", "sanity", "plot"]),
    ],
)
def test_follow_ups_and_the_exit_code(fluxctl, engine, tmp_path, monkeypatch, plans, answers, args, code, done):
    called = follow_ups(monkeypatch, **answers)
    engine(**plans)
    answer = fluxctl(*SMOKE, "--mode", "both", "--then", "parity,sanity, plot,sanity", *args)
    assert answer.code == code
    assert [name for name, _, _ in called] == done
    for _, ids, pairs in called:
        good = [info.record for info in runs(tmp_path) if info.verdict.launch_code in (0, 1)]
        assert sorted(ids) == sorted(record.id for record in good)
        assert len(pairs) == (2 if "dies" in plans.get("fwdllm-", {}) else 3)
        modes = {record.id: record.mode for record in good}
        assert {(modes[real], modes[sim]) for real, sim in pairs} == {("real", "sim")}


@pytest.mark.feature("E14", "F19")
def test_follow_ups_for_real(fluxctl, tmp_path):
    args = ["--set", "engine.wall_factor=20", "--set", "data.train_per_class=100", "--set", "data.test_per_class=20"]
    more = ["--model", "tiny", "--data", "synthetic", "--max-bins", "1", "--max-iterations-per-bin", "2"]
    answer = fluxctl(
        *SMOKE, "--only", "fwdllm", "--mode", "both", *args, *more, "--var-stopping-policy", "fixed_cap",
        "--then", "sanity,parity,plot", "--json",
    )  # fmt: skip
    lines = [json.loads(line) for line in answer.out.splitlines()]
    sane = [line for line in lines if line.get("event") == "sanity"]
    ids = [row["id"] for row in lines[-1]["data"]["runs"]]
    assert sorted(line["id"] for line in sane) == sorted(ids)
    assert all(line["is_sane"] for line in sane), sane
    commands = [line["command"] for line in lines if "command" in line]
    assert commands == ["parity", "plot", "launch"]
    assert answer.code in (0, 1)  # so short a run may be INCONCLUSIVE
    assert lines[-1]["status"] == ("ok" if answer.code == 0 else "no")


def panel(width, *states, num_runs=5):
    console = Console(width=width, height=30, file=io.StringIO(), color_system=None)
    shown = Panel(console, num_runs)
    shown.turn({state.run_id: state for state in states}, states[0], is_milestone=True)
    console.print(shown.render())
    return console.file.getvalue().splitlines()


def heard(name, *lines, **kwargs):
    plan = make_plan(Request(run_set="smoke", only=[name]))
    state = RunState(f"run-{name}", plan.runs[0], max_wall_s=1000.0, **kwargs)
    for line in lines:
        state.hear({"event": "progress", "phase": "train", "what": "bins", "in_flight": 7, "sim_rate": 1190.0, **line})
    return state


@pytest.mark.feature("A27", "E14")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_has_two_lines_per_run(width):
    lines = [{"bins": n, "accuracy": 0.2 + n / 50, "best_accuracy": 0.8, "engine_s": n, "wall_s": n} for n in range(21)]
    waiting = heard("fwdllm")
    waiting.hear({"event": "progress", "phase": "prepare", "what": "features", "done": 3, "total": 4})
    shown = panel(width, heard("fluxtune", *lines), waiting)
    assert max(map(cell_len, shown)) <= width
    assert len(shown) == 5
    assert "fluxtune sim seed 0" in shown[0]
    assert "━" in shown[0]
    assert " 50 %  ETA 20.0 s" in shown[0]
    assert "▁" in shown[1]
    assert "bins 20/40" in shown[1]
    assert "features 3/4" in shown[2]
    assert shown[4] == "0 of 5 runs ended, 2 running, 3 to come"
    if width == 120:
        for part in ("acc 0.600 (best 0.800)", "engine 20.0 s", "x1,190", "in flight 7"):
            assert part in shown[1]


def test_the_panel_never_outgrows_the_screen():
    shown = panel(80, *[heard(name) for name in ("fluxtune", "fwdllm", "fwdllm_plus")] * 1, num_runs=3)
    assert len(shown) == 7
    console = Console(width=80, height=6, file=io.StringIO(), color_system=None)
    small = Panel(console, 9)
    states = {str(n): heard("fluxtune") for n in range(9)}
    small.turn(states, states["0"], is_milestone=False)
    console.print(small.render())
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 5
    assert "7 not shown" in lines[-1]


@pytest.mark.feature("A27")
@pytest.mark.parametrize(
    ("line", "rule", "eta_s"),
    [
        ({"bins": 10, "engine_s": 8.0, "wall_s": 5.0}, "bins", 15.0),  # 10 of 40 bins, 8 of 80 s
        ({"bins": 10, "engine_s": 40.0, "wall_s": 5.0}, "time", 5.0),
        ({"bins": 0, "engine_s": 0.0, "wall_s": 5.0}, "wall", None),
    ],
)
def test_the_estimate_comes_from_the_rule_that_binds(line, rule, eta_s):
    state = heard("fluxtune", line)
    assert state.binding.rule == rule
    assert state.eta_s == (None if eta_s is None else pytest.approx(eta_s))


def test_the_wall_ceiling_can_bind():
    state = heard("fluxtune", {"bins": 1, "engine_s": 1.0, "wall_s": 5.0}, started_s=wall.monotonic_s() - 500)
    assert (state.binding.rule, round(state.eta_s)) == ("wall", 500)
    assert state.eta.endswith("by wall")
