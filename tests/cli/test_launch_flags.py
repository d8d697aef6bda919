"""What the flags of launch mean: values, traces, devices; and what is refused."""

import json

import pytest

from fluxctl.config.load import read_config
from fluxctl.runs.index import list_runs

SMOKE = ["launch", "--run-set", "smoke", "--yes"]


def runs(tmp_path):
    return list_runs(tmp_path / "runs")


def configs(tmp_path):
    return [read_config(info.folder.config) for info in runs(tmp_path)]


FLAGS = [
    pytest.param(["--delay-factor", "4"], "delays.factor", 4.0, marks=pytest.mark.feature("E3")),
    pytest.param(["--delays", "off"], "delays.enabled", False),
    pytest.param(["--max-runtime", "1d2h"], "limits.max_runtime_s", 93600.0, marks=pytest.mark.feature("E4")),
    pytest.param(["--max-runtime", "90s"], "limits.max_runtime_s", 90.0, marks=pytest.mark.feature("E4")),
    pytest.param(["--max-runtime", "0.5h"], "limits.max_runtime_s", 1800.0, marks=pytest.mark.feature("E4")),
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
