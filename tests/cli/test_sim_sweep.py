"""sim sweep against a fake engine: points, resumption, broken points, tables."""

import csv

import pytest

from fluxctl.runs.index import list_runs

SWEEP = ["sim", "sweep", "--run-set", "smoke", "--only", "fwdllm,fluxtune", "--no-progress"]
LRS = ["--grid", "server.lr=0.1,0.2"]


def home(tmp_path):
    (folder,) = (tmp_path / "runs").glob("sweep-*")
    return folder


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.feature("F23")
def test_every_point_runs_once_for_each_baseline_and_seed(fluxctl, engine, tmp_path):
    answer = fluxctl(*SWEEP, *LRS, "--grid", "gate.max_iterations_per_bin=5,6", "--seeds", "0..1", "--jobs", "2")
    assert answer.code == 0, answer.err
    rows = table(home(tmp_path) / "sweep.csv")
    assert len(rows) == 16
    assert len(list_runs(home(tmp_path))) == 16
    assert {(row["server.lr"], row["gate.max_iterations_per_bin"]) for row in rows} == {
        ("0.1", "5"), ("0.1", "6"), ("0.2", "5"), ("0.2", "6"),
    }  # fmt: skip
    assert {row["verdict"] for row in rows} == {"CONVERGED"}
    assert all(float(row["best_accuracy"]) == 0.876 for row in rows)
    configs = {info.record.id: info.folder.config.read_text() for info in list_runs(home(tmp_path))}
    for row in rows:
        assert f"lr: {row['server.lr']} " in configs[row["id"]]
        assert f"seed: {row['seed']} " in configs[row["id"]]
    assert "2 CONVERGED" in answer.out
    assert "0.876 ± 0.000" in answer.out


@pytest.mark.feature("F23")
def test_what_has_ended_is_not_run_again(fluxctl, engine, tmp_path):
    engine(fluxtune={"dies": 1})
    first = fluxctl(*SWEEP, *LRS)
    assert first.code == 3
    assert [row["verdict"] for row in table(home(tmp_path) / "sweep.csv")] == ["CONVERGED", "CRASHED"] * 2
    before = {info.record.id for info in list_runs(home(tmp_path))}
    engine()
    planned = fluxctl(*SWEEP, *LRS, "--dry-run", "--json").envelope["data"]["points"]
    assert [point["state"] for point in planned] == ["ended", "to run"] * 2
    again = fluxctl(*SWEEP, *LRS)
    assert again.code == 0
    assert "4 points: 2 to run, 2 ended before, 0 refused" in again.err
    rows = table(home(tmp_path) / "sweep.csv")
    assert [row["verdict"] for row in rows] == ["CONVERGED"] * 4
    assert len({info.record.id for info in list_runs(home(tmp_path))} - before) == 2
    last = fluxctl(*SWEEP, *LRS)
    assert (last.code, "0 to run" in last.err) == (0, True)
    assert table(home(tmp_path) / "sweep.csv") == rows


def test_a_named_folder_keeps_points_when_the_grid_grows(fluxctl, engine, tmp_path):
    assert fluxctl(*SWEEP, "--grid", "server.lr=0.1", "--folder", "mine").code == 0
    answer = fluxctl(*SWEEP, *LRS, "--folder", "mine", "--csv", "t.csv")
    assert "4 points: 2 to run, 2 ended before" in answer.err
    assert len(table(tmp_path / "t.csv")) == 4
    assert len(list_runs(tmp_path / "mine")) == 4


@pytest.mark.feature("F23")
def test_a_refused_point_is_told_and_the_rest_goes_on(fluxctl, engine, tmp_path):
    answer = fluxctl(*SWEEP, "--grid", "aggregation.goal=3,99")
    assert answer.code == 2
    assert answer.err.count("must not exceed concurrency") >= 1
    rows = table(home(tmp_path) / "sweep.csv")
    assert [row["verdict"] for row in rows] == ["CONVERGED"] * 2 + ["REFUSED"] * 2
    assert "must not exceed concurrency" in rows[2]["reason"]
    assert len(list_runs(home(tmp_path))) == 2
    told = fluxctl(*SWEEP, "--grid", "aggregation.goal=3,99", "--json").envelope
    assert (told["status"], told["error"]["code"]) == ("error", "config")
    assert [point["verdict"] for point in told["data"]["points"]][2:] == ["REFUSED"] * 2


def test_a_run_that_refuses_does_not_stop_the_others(fluxctl, engine, tmp_path):
    error = {"code": "asset", "message": "no model", "hint": None, "where": None, "detail": None}
    engine(fwdllm={"verdict": {"verdict": "CRASHED", "exit_code": 2, "error": error}})
    answer = fluxctl(*SWEEP, *LRS)
    assert answer.code == 2
    assert [row["verdict"] for row in table(home(tmp_path) / "sweep.csv")] == ["CRASHED", "CONVERGED"] * 2


def test_one_baseline_may_be_refused_alone(fluxctl, engine, tmp_path):
    """fluxtune has C = 10 in its own part of the run set, so what fits the others may not fit it."""
    answer = fluxctl(*SWEEP, "--clients", "40", "--grid", "aggregation.concurrency=30,50")
    assert answer.code == 2
    rows = table(home(tmp_path) / "sweep.csv")
    assert [(row["aggregation.concurrency"], row["verdict"]) for row in rows] == [
        ("30", "CONVERGED"), ("30", "CONVERGED"), ("50", "REFUSED"), ("50", "REFUSED"),
    ]  # fmt: skip


def test_two_spellings_of_one_point_are_one_run(fluxctl, engine, tmp_path):
    assert fluxctl(*SWEEP, "--grid", "limits.max_runtime_s=80,80.0", "--only", "fwdllm").code == 0
    assert len(list_runs(home(tmp_path))) == 2
    assert len(table(home(tmp_path) / "sweep.csv")) == 4


def test_dry_run_lists_the_points_and_starts_nothing(fluxctl, engine, tmp_path):
    answer = fluxctl(*SWEEP, *LRS, "--dry-run")
    assert answer.code == 0
    assert answer.out.count("to run") == 4
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "there is nothing to sweep"),
        (["--grid", "server.lr="], "the grid has no value"),
        (["--grid", "server.lr"], "a dotted path, an equals sign and a value"),
        (["--grid", "server.lrr=1,2"], "did you mean 'lr'"),
        (["--grid", "server.lr=fast"], "must be a number"),
        (["--grid", "server.lr=0.1", "--grid", "server.lr=0.2"], "stands twice in the grid"),
        (["--grid", "baseline=fwdllm"], "use --only"),
        (["--grid", "mode=real"], "mode is no setting"),
        (["--grid", "aggregation.goal=98,99"], "must not exceed concurrency"),
        (["--grid", "selection.policy=randum,rundom"], "did you mean 'random'"),
        ([*LRS, "--seed", "1", "--seeds", "1..2"], "exclude each other"),
        ([*LRS, "--csv", "no/such/t.csv"], "cannot write the file"),
    ],
)
def test_mistakes_start_nothing(fluxctl, engine, tmp_path, args, message):
    answer = fluxctl(*SWEEP, *args)
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "runs").exists()


def test_a_sweep_has_a_bound(fluxctl, engine, tmp_path, monkeypatch):
    monkeypatch.setattr("fluxctl.commands._sim_points.MOST_RUNS", 5)
    answer = fluxctl(*SWEEP, *LRS, "--seeds", "0..1")
    assert answer.code == 2
    assert "more than 5 runs" in answer.err


@pytest.mark.parametrize("columns", [60, 200])
def test_the_table_fits_the_screen(fluxctl, engine, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = fluxctl(*SWEEP, *LRS)
    assert max(map(len, answer.out.splitlines())) <= columns
    assert "1,234,567" in answer.out
