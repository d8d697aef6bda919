"""report through the program."""

import json
import shutil

import pytest

from fluxctl.runs.index import list_runs


@pytest.fixture
def runs(recorded_runs, tmp_path, monkeypatch):
    """A copy of the recorded runs, as one launch."""
    shutil.copytree(recorded_runs, tmp_path / "runs", symlinks=True)
    monkeypatch.setenv("FLUXCTL_CACHE_DIR", str(recorded_runs.parent / "cache"))
    for info in list_runs(tmp_path / "runs"):
        record = json.loads(info.folder.run.read_text())
        info.folder.run.write_text(json.dumps({**record, "group": "one"}))
    return tmp_path / "runs"


@pytest.mark.feature("G7")
def test_a_run_and_a_run_set(fluxctl, runs):
    latest = list_runs(runs)[-1]
    answer = fluxctl("report")
    assert answer.code == 0, answer.err
    assert answer.out.strip() == f"runs/{latest.record.id}/report.html"
    page = (latest.folder.path / "report.html").read_text()
    assert latest.record.id in page
    assert "jvp:" not in page
    told = fluxctl("report", "smoke", "--json").envelope["data"]
    assert told["html"] == "runs/report-smoke.html"
    assert told["runs"] == [info.record.id for info in list_runs(runs)]
    assert (runs / "report-smoke.html").stat().st_size == told["bytes"]
    assert len(list_runs(runs)) == 3


def test_a_deep_report_computes_with_the_model(fluxctl, runs, tmp_path):
    assert fluxctl("report", "fwdllm:sim", "--deep", "--out", "deep.html").code == 0
    page = (tmp_path / "deep.html").read_text()
    assert "jvp: The fast path gives the same bits" in page
    assert "own texts" in page


def test_what_cannot_be_found_or_written(fluxctl, runs, tmp_path):
    unknown = fluxctl("report", "nothing")
    assert unknown.code == 2
    assert "there is no run and no run set 'nothing'" in unknown.err
    assert "run sets with runs: smoke" in unknown.err
    answer = fluxctl("report", "--out", "no/such/folder/x.html")
    assert answer.code == 2
    assert "cannot write the report" in answer.err
    assert fluxctl("report", "--runs-dir", tmp_path / "none").code == 5
