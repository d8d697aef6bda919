"""init: a run set that can be launched as it is, and that no file is lost to."""

import pytest

from fluxctl.commands._init_text import run_set_text
from fluxctl.config.source import Text, parse


@pytest.mark.feature("G7")
@pytest.mark.parametrize("has_demo", [True, False])
def test_the_new_run_set_passes_the_gate(fluxctl, monkeypatch, tmp_path, has_demo):
    monkeypatch.setattr("fluxctl.commands.init._has_demo", lambda: has_demo)
    answer = fluxctl("init", "mine")
    assert answer.code == 0
    assert answer.out == "mine.yaml\n"
    assert "fluxctl launch --run-set mine.yaml --dry-run" in answer.err
    assert ("tiny model" in answer.err) != has_demo
    told = fluxctl("launch", "--run-set", "mine.yaml", "--dry-run", "--json").envelope
    assert (told["status"], told["data"]["gate"]) == ("ok", {"status": "ok", "findings": []})
    assert [run["baseline"] for run in told["data"]["runs"]] == ["fwdllm", "fwdllm_plus", "fluxtune"]
    assert {run["config"]["model"]["name"] for run in told["data"]["runs"]} == {"minilm" if has_demo else "tiny"}
    assert {run["config"]["run_set"] for run in told["data"]["runs"]} == {"mine"}


@pytest.mark.feature("G7")
def test_every_key_is_explained():
    lines = run_set_text(has_demo=True).splitlines()
    leaves = [line for line in lines if line.startswith("  ") and not line.rstrip().endswith(":")]
    assert len(leaves) > 15
    assert all("  # " in line for line in leaves)


def test_the_part_that_is_commented_out_works_too(fluxctl, tmp_path):
    text = run_set_text(has_demo=False)
    at = text.index("# variants:")
    whole = text[:at] + "".join(line[2:] for line in text[at:].splitlines(keepends=True))
    assert parse(Text(whole, "x", "x")).child("variants") is not None
    (tmp_path / "all.yaml").write_text(whole)
    told = fluxctl("launch", "--run-set", "all.yaml", "--dry-run", "--json").envelope
    assert len(told["data"]["runs"]) == 6
    assert told["status"] == "ok"


@pytest.mark.feature("G7")
def test_no_file_is_overwritten(fluxctl, tmp_path):
    path = tmp_path / "my-runs.yaml"
    path.write_text("mine\n")
    answer = fluxctl("init")
    assert answer.code == 2
    assert "the file exists already" in answer.err
    assert path.read_text() == "mine\n"
    assert fluxctl("init", "--force").code == 0
    assert path.read_text() == run_set_text(has_demo="minilm" in path.read_text())


def test_a_place_that_cannot_be_written(fluxctl):
    answer = fluxctl("init", "nowhere/mine")
    assert answer.code == 2
    assert "cannot write the run set: no such file or directory" in answer.err


@pytest.mark.feature("G6")
def test_as_json(fluxctl):
    told = fluxctl("init", "x.yml", "--json").envelope
    assert (told["command"], told["status"], told["data"]["file"]) == ("init", "ok", "x.yml")
    assert told["data"]["gate"]["status"] in ("ok", "check")
