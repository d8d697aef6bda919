"""A run set spread over nodes: folders that are copied together are one run set, and other conditions are refused."""

import json
import shutil

import pytest

from fluxctl.runs.index import list_runs

SMALL = ["--run-set", "smoke", "--model", "tiny", "--data", "synthetic", "--max-bins", "1", "--max-iterations-per-bin",
         "1", "--var-stopping-policy", "fixed_cap", "--set", "data.train_per_class=100", "--set",
         "data.test_per_class=10", "--yes", "--no-progress"]  # fmt: skip
NODES = {
    "one": ["--only", "fwdllm,fluxtune"],
    "two": ["--only", "fluxtune", "--mode", "real", "--set", "engine.wall_factor=20"],
    "other": ["--only", "fwdllm_plus", "--delay-factor", "2"],
}


@pytest.fixture
def node(fluxctl, tmp_path):
    """Launch on a node; returns a way to copy its runs to the common folder."""

    def launch(name):
        answer = fluxctl("-q", "launch", *SMALL, *NODES[name], "--runs-dir", name)
        assert answer.code == 0, answer.err
        for info in list_runs(tmp_path / name):
            shutil.copytree(info.folder.path, tmp_path / "runs" / info.record.id)

    return launch


@pytest.mark.feature("E29")
def test_runs_of_two_nodes_are_one_run_set_and_others_are_refused(fluxctl, node, tmp_path):
    node("one")
    node("two")
    told = fluxctl("runs", "list", "--json").envelope["data"]["runs"]
    assert len(told) == 3
    (condition,) = {row["condition_fingerprint"] for row in told}
    assert fluxctl("runs", "list").out.count(condition) == 3
    assert fluxctl("runs", "list", "--filter", f"condition_fingerprint={condition}", "--json").code == 0

    figures = fluxctl("plot", "e1", "--json")
    assert figures.code == 0
    drawn = (tmp_path / figures.envelope["data"]["figures"][0]["csv"]).read_text()
    assert "fwdllm" in drawn  # of node one
    assert "fluxtune" in drawn
    assert fluxctl("report", "smoke").code == 0
    pair = fluxctl("parity", "fluxtune:real", "fluxtune:sim", "--json").envelope["data"]["pairs"][0]
    assert {pair["left"], pair["right"]} == {row["id"] for row in told if row["baseline"] == "fluxtune"}
    assert pair["verdict"] in ("PASS", "FAIL", "INCONCLUSIVE")  # so short a run may not say
    same = fluxctl("runs", "diff", "fwdllm:sim", "fluxtune:real").out
    assert f"one figure may show both: the conditions are equal ({condition})" in same

    node("other")
    refused = fluxctl("plot", "e1")
    assert refused.code == 2
    assert "were made under different conditions: delays.factor" in refused.err
    differ = fluxctl("runs", "diff", "fwdllm:sim", "fwdllm_plus:sim").out
    assert "one figure must not show both: the conditions differ in delays.factor" in differ
    assert not fluxctl("runs", "diff", "fwdllm:sim", "fwdllm_plus:sim", "--json").envelope["data"]["is_same_condition"]


@pytest.mark.feature("E29")
def test_each_node_shows_the_condition_before_it_starts(fluxctl):
    found = []
    for name in NODES:
        args = [arg for arg in SMALL if arg not in ("--yes", "--no-progress")]
        text = fluxctl("launch", *args, *NODES[name], "--dry-run").out
        found.append(next(line.split()[-1] for line in text.splitlines() if " condition " in line))
    assert found[0] == found[1] != found[2]


@pytest.mark.feature("E28")
def test_a_run_says_which_device_computed_it(fluxctl, node, tmp_path):
    node("other")
    (info,) = list_runs(tmp_path / "runs")
    events = [json.loads(line) for line in info.folder.events.read_text().splitlines()]
    assert next(event for event in events if event["event"] == "run_meta")["wall"]["device"] == "cpu"
    notes = [json.loads(line) for line in info.folder.wall_events.read_text().splitlines()]
    assert [note["device"] for note in notes if note["event"] == "compute"] == ["cpu"]
