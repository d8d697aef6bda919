import json

import pytest


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
