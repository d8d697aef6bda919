"""Real and simulated runs of the shipped run sets, climbed rung by rung through the command line.

The engines are real processes on a real wall clock. Budgets are cut for the normal suite; the campaign over whole run
sets is nightly.
"""

import json
from pathlib import Path

import pytest

from fluxctl import cli

ALLOWED = json.loads((Path(__file__).parent / "allowed_skips.json").read_text())
HARD = ("INV", "EXACT")


@pytest.fixture
def compare(capfd, tmp_path, monkeypatch):
    """Launch a run set on both clocks; returns its compared pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLUXCTL_NO_PROGRESS", "1")

    def launch(*args):
        code = cli.main(["launch", "--mode", "both", "--yes", *args])
        out, err = capfd.readouterr()
        assert code in (0, 1), out + err  # 1: a run ended STARVED, on both clocks alike
        code = cli.main(["parity", "latest", "--yes", "--json"])
        out, err = capfd.readouterr()
        answer = json.loads(out)
        assert code == 0, err + json.dumps(answer, indent=1)[:5000]
        return answer["data"]["pairs"]

    return launch


def judge(pair, run_set):
    """Nothing fails, nothing hard is left open, and only what is allowed is skipped."""
    rungs = {rung["id"]: rung for rung in pair["rungs"]}
    assert pair["verdict"] == "PASS"
    assert pair["counts"]["FAIL"] == 0
    assert [i for i, rung in rungs.items() if rung["tier"] in HARD and rung["status"] == "INCONCLUSIVE"] == []
    for name in ("D61", "model_checksum"):  # cohorts and weights, exact to the last commit
        assert (rungs[name]["status"], rungs[name]["value"]) == ("PASS", 1.0), rungs[name]
    baseline = pair["baseline"].split()[0]
    allowed = {i for i, skip in ALLOWED[run_set].items() if baseline in skip["baselines"]}
    skipped = {i for i, rung in rungs.items() if rung["status"] == "SKIP"}
    assert {i: rungs[i]["message"] for i in skipped - allowed} == {}
    assert rungs["D4"]["value"] > 1  # engine seconds that a second of the simulation covers


@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.feature("D0h", "D61", "A1")
def test_smoke(compare):
    pairs = compare("--run-set", "smoke", "--max-runtime", "20s")
    assert [pair["baseline"] for pair in pairs] == ["fwdllm", "fwdllm_plus", "fluxtune"]
    for pair in pairs:
        judge(pair, "smoke")


@pytest.mark.nightly
@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.parametrize("run_set", ["smoke", "smoke_unavail"])
def test_whole_run_sets(compare, run_set):
    for pair in compare("--run-set", run_set):
        judge(pair, run_set)


@pytest.mark.nightly
@pytest.mark.demo
@pytest.mark.wall
def test_a_hundred_clients(compare):
    """``main`` on a wall clock that is twelve times as fast: about ten minutes."""
    pairs = compare("--run-set", "main", "--max-bins", "12", "--set", "engine.wall_factor=12")
    for pair in pairs:
        assert pair["verdict"] == "PASS"
        rungs = {rung["id"]: rung for rung in pair["rungs"]}
        assert (rungs["D61"]["value"], rungs["model_checksum"]["value"]) == (1.0, 1.0)
        assert rungs["D61"]["n"] >= 10
