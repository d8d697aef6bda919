import json
import shutil

import pytest

from fluxctl.runs.index import list_runs
from fluxctl.runs.records import ProcessMark


@pytest.fixture
def launched(fluxctl, engine):
    """Two runs of fluxtune and one of fwdllm that diverged."""
    engine(fwdllm={"verdict": {"verdict": "DIVERGED"}, "summary": {"best_accuracy": 0.4}})
    fluxctl("launch", "--run-set", "smoke", "--only", "fluxtune,fwdllm", "--yes", "-y", "--seed", "1")
    fluxctl("launch", "--run-set", "smoke", "--only", "fluxtune", "--yes")


def test_no_runs_is_nothing_to_do(fluxctl):
    for args in (["list"], ["show"], ["path", "latest"], ["hash", "fluxtune:sim"]):
        answer = fluxctl("runs", *args)
        assert answer.code == 5
        assert "there are no runs" in answer.err


@pytest.mark.feature("G7")
def test_list(fluxctl, launched):
    lines = fluxctl("runs", "list").out.splitlines()
    assert [line.split()[1] for line in lines if "smoke-" in line][:3] == ["DIVERGED", "CONVERGED", "CONVERGED"]
    told = fluxctl("runs", "list", "--json", "--filter", "baseline=fluxtune", "--sort", "-seed", "--limit", "1")
    assert [row["seed"] for row in told.envelope["data"]["runs"]] == [0]
    assert told.envelope["data"]["num_matching"] == 2
    assert fluxctl("runs", "list", "--filter", "baseline=none").code == 5
    assert fluxctl("runs", "list", "--filter", "bas=none").code == 2


def test_show_path_and_words(fluxctl, launched):
    path = fluxctl("runs", "path", "fwdllm:sim").out.strip()
    assert "-fwdllm-sim-" in path
    shown = fluxctl("runs", "show", path).out
    assert "DIVERGED" in shown
    assert "held the target" in shown
    told = fluxctl("runs", "show", "latest~1", "--json").envelope["data"]
    assert (told["run"]["baseline"], told["verdict"]["verdict"]) == ("fluxtune", "CONVERGED")
    assert fluxctl("runs", "show", "latest~9").code == 2


@pytest.mark.feature("E30")
def test_hash_is_over_the_events_without_identity_and_wall(fluxctl, launched, tmp_path):
    from fluxctl.telemetry.writer import EventWriter

    hashes = []
    for word, wall_s in (("latest", 1.0), ("latest~1", 2.0)):
        folder = fluxctl("runs", "path", word).out.strip()
        with EventWriter(folder) as writer:
            writer.header({"run": word})
            writer.emit(5, "run_meta", {"seed": 1}, wall={"wall_s": wall_s})
        hashes.append(fluxctl("runs", "hash", word).out.strip())
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 64
    assert fluxctl("runs", "hash", "fwdllm:sim").code == 5  # it has no events


def test_output_of_a_run_with_an_odd_name(fluxctl, engine, tmp_path):
    (tmp_path / "mine.yaml").write_text("description: '[bold]x[/bold]'\nbaselines: [fwdllm]\n")
    answer = fluxctl("launch", "--run-set", "mine.yaml", "--yes")
    assert "[bold]x[/bold]" in answer.err
    assert json.loads((tmp_path / "runs" / "latest" / "run.json").read_text())["run_set"] == "mine"


@pytest.fixture
def recorded(recorded_runs, tmp_path):
    """A copy of the recorded runs as the program's own runs folder."""
    shutil.copytree(recorded_runs, tmp_path / "runs", symlinks=True)
    return tmp_path / "runs"


@pytest.mark.feature("C18")
def test_fields_say_which_events_carry_what(fluxctl, recorded):
    shown = fluxctl("runs", "fields", "fluxtune:sim", "--event", "agg_round").out
    row = next(line.split() for line in shown.splitlines() if " commit_reason " in line)
    assert row[2] == "text"
    assert row[3].endswith("%")
    assert fluxctl("runs", "fields", "--event", "none").out.rstrip().endswith("no such field")
    (told,) = fluxctl("runs", "fields", "--json").envelope["data"]["runs"]
    assert told["mode"] == "sim"
    fields = {(field["event"], field["path"]): field for field in told["fields"]}
    assert fields["agg_eval", "test_accuracy"]["density"] == 1.0
    assert fields["agg_round", "commit_reason"]["num_present"] == 4
    assert fluxctl("runs", "fields", "--missing").code == 0


def test_fields_of_a_pair_are_shown_side_by_side(fluxctl, recorded):
    first, second, _ = list_runs(recorded)
    for info, mode in ((first, "sim"), (second, "real")):
        record = json.loads(info.folder.run.read_text())
        info.folder.run.write_text(json.dumps({**record, "mode": mode, "pair": "p", "seed": 0}))
    text = second.folder.events.read_text().replace('"mode":"sim"', '"mode":"real"').replace('"mcc"', '"m"')
    second.folder.events.write_text(text)
    lines = fluxctl("runs", "fields", first.record.id, "--event", "agg_eval").out.splitlines()
    assert next(line.split() for line in lines if " mcc " in line)[3:] == ["100%", "none", "promised,", "absent"]
    assert next(line.split() for line in lines if " m " in line)[2:] == ["float", "none", "100%", "extra"]


def test_diff_names_settings_and_results_that_differ(fluxctl, recorded):
    first, second, third = (info.record.id for info in list_runs(recorded))
    seeds = fluxctl("runs", "diff", first, second, "--json").envelope["data"]
    assert seeds["config"] == [{"key": "seed", "left": 0, "right": 1}]
    assert (seeds["is_same_condition"], seeds["is_same_run"]) == (True, False)
    assert "hash" in {item["field"] for item in seeds["results"]}
    shown = fluxctl("runs", "diff", first, third).out
    assert next(line.split() for line in shown.splitlines() if line.startswith("aggregation.goal")) == [
        "aggregation.goal", "3", "10",
    ]  # fmt: skip
    assert "the conditions are equal" in shown
    same = fluxctl("runs", "diff", first, first).out
    assert "the configuration is the same" in same
    assert "the result is the same" in same


def test_rm_removes_what_it_is_told_and_moves_latest(fluxctl, recorded):
    first, second, third = (info.record.id for info in list_runs(recorded))
    alone = fluxctl("runs", "rm", third)
    assert alone.code == 2
    assert "add --yes" in alone.err
    assert len(list_runs(recorded)) == 3
    answer = fluxctl("runs", "rm", "latest", third, "--yes", "--json")
    assert (answer.code, answer.envelope["data"]["removed"]) == (0, [third])
    assert (recorded / "latest").readlink().name == second
    assert fluxctl("runs", "rm", first, second, "-y").out.splitlines() == [f"removed {first}", f"removed {second}"]
    assert list(recorded.iterdir()) == []
    assert fluxctl("runs", "rm", "latest", "-y").code == 5


def test_rm_refuses_running_runs_and_folders_elsewhere(fluxctl, recorded, tmp_path):
    first, second, third = list_runs(recorded)
    third.folder.verdict.unlink()
    record = json.loads(third.folder.run.read_text())
    mark = ProcessMark.of()
    live = {**record, "status": "running", "process": {"host": mark.host, "pid": mark.pid, "started": mark.started}}
    third.folder.run.write_text(json.dumps(live))
    answer = fluxctl("runs", "rm", first.record.id, third.record.id, "--yes")
    assert answer.code == 2
    assert "has not ended" in answer.err
    elsewhere = tmp_path / "other" / second.record.id
    shutil.copytree(second.folder.path, elsewhere)
    answer = fluxctl("runs", "rm", first.record.id, elsewhere, "--yes")
    assert answer.code == 2
    assert "does not lie in the runs folder" in answer.err
    (recorded / "link").symlink_to(elsewhere)
    assert fluxctl("runs", "rm", recorded / "link", "--yes").code == 2
    assert elsewhere.is_dir()
    assert len(list_runs(recorded)) == 3
