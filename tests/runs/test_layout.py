import json
import os
import re
from pathlib import Path

import pytest

from fluxctl.config.fingerprint import fingerprints
from fluxctl.config.load import read_config
from fluxctl.errors import ConfigError
from fluxctl.runs.layout import RunFolder, create_run, prepare_runs_dir, run_folders, runs_dir
from fluxctl.runs.records import ProcessMark, VerdictRecord
from fluxctl.types import Mode, Verdict


@pytest.mark.feature("E30")
def test_a_new_run_has_everything_that_is_known_before_it_starts(make_run):
    run = make_run("run_set=main", "baseline=fluxtune", "seed=3", pair="abcd", invocation={"argv": ["x"]})
    assert re.fullmatch(r"\d{8}-\d{6}-main-fluxtune-sim-[0-9a-f]{4}", run.id)
    config = read_config(run.config).config
    assert (config.seed, config.baseline) == (3, "fluxtune")
    record = run.read_run()
    assert (record.id, record.mode, record.seed, record.pair) == (run.id, Mode.SIM, 3, "abcd")
    assert record.fingerprints["run"] == fingerprints(config).run
    assert (record.status, record.process.pid) == ("created", os.getpid())
    assert json.loads((run.path / "invocation.json").read_text()) == {"argv": ["x"]}
    assert (run.path / "provenance.json").is_file()
    assert run.read_verdict() is None


@pytest.mark.feature("E30")
def test_latest_points_at_the_newest_run_and_survives_a_move(make_run, tmp_path):
    make_run()
    second = make_run()
    link = tmp_path / "runs" / "latest"
    assert os.readlink(link) == second.id  # relative
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "latest" / "run.json").is_file()


def test_a_directory_named_latest_does_no_harm(make_run, tmp_path):
    (tmp_path / "runs" / "latest").mkdir(parents=True)
    make_run()
    assert [entry.name for entry in (tmp_path / "runs").iterdir() if entry.name.startswith(".")] == []


def test_odd_names_stay_inside_the_folder(make_run, tmp_path):
    run = make_run("run_set=../../etc/passwd", "baseline='a b/c'")
    assert run.path.parent == tmp_path / "runs"
    assert "/" not in run.id
    assert run_folders(tmp_path / "runs") == [run]


def test_the_life_of_run_json(make_run):
    run = make_run()
    run.mark_running(ProcessMark("h", 1, 2.0))
    assert (run.read_run().status, run.read_run().process) == ("running", ProcessMark("h", 1, 2.0))
    run.write_verdict(VerdictRecord(Verdict.CONVERGED, "why", summary={"bins": 3}))
    run.mark_ended()
    assert run.read_run().status == "ended"
    assert run.read_verdict() == VerdictRecord(Verdict.CONVERGED, "why", summary={"bins": 3})


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (None, {}, "runs"),
        (None, {"FLUXCTL_RUNS_DIR": "e"}, "e"),
        ("f", {"FLUXCTL_RUNS_DIR": "e"}, "f"),
        (None, {"FLUXCTL_RUNS_DIR": ""}, "runs"),
    ],
)
def test_where_runs_live(given, environ, expected):
    assert runs_dir(given and Path(given), environ) == Path(expected)


def test_a_folder_that_cannot_be_written_is_told_before_anything_else(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a directory") as caught:
        prepare_runs_dir(tmp_path / "file" / "runs")
    assert "--runs-dir" in caught.value.hint

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(ConfigError, match="permission denied"):
        prepare_runs_dir(tmp_path / "runs")


def test_a_folder_without_run_json_is_no_run(tmp_path):
    (tmp_path / "20260101-000000-a-b-sim-0000").mkdir()
    assert run_folders(tmp_path) == []
    assert run_folders(tmp_path / "missing") == []


@pytest.mark.parametrize("text", ["{}", "[]", '{"id": "x", "mode": "dream"}'])
def test_a_damaged_run_json_reads_as_none(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    assert RunFolder(tmp_path).read_run() is None


def test_two_launches_in_one_second_get_two_folders(make_run):
    assert len({make_run().id for _ in range(5)}) == 5


def test_create_run_needs_a_folder(tmp_path):
    from fluxctl.config.load import resolve

    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        create_run(tmp_path / "file", resolve([]))
