"""export through the program."""

import csv
import sys
from pathlib import Path

import pytest

from fluxctl.runs.index import list_runs


@pytest.mark.feature("F22")
@pytest.mark.parametrize("kind", ["csv", "parquet", "tensorboard"])
def test_an_export_says_what_it_wrote(fluxctl, recorded_runs, tmp_path, kind):
    answer = fluxctl("export", "fluxtune:sim", "--to", kind, "--out", "out", "--runs-dir", recorded_runs, "--json")
    assert answer.code == 0, answer.err
    told = answer.envelope["data"]
    assert (told["to"], told["folder"]) == (kind, "out")
    for file in told["files"]:
        assert Path(file["file"]).stat().st_size == file["bytes"] > 0
    spoken = fluxctl("export", "fluxtune:sim", "--to", kind, "--out", "out", "--runs-dir", recorded_runs)
    assert spoken.out.splitlines() == [file["file"] for file in told["files"]]
    if kind == "csv":
        info = [info for info in list_runs(recorded_runs) if info.record.baseline == "fluxtune"][-1]
        with (tmp_path / "out" / "agg_eval.csv").open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert max(float(row["test_accuracy"]) for row in rows) == info.fields()["best_accuracy"]


def test_a_missing_extra_a_strange_folder_and_a_strange_format(fluxctl, recorded_runs, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    answer = fluxctl("export", "--to", "csv", "--out", "mine", "--runs-dir", recorded_runs)
    assert answer.code == 2
    assert "no export of ours" in answer.err
    assert fluxctl("export", "--to", "excel", "--runs-dir", recorded_runs).code == 2
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    missing = fluxctl("export", "--to", "parquet", "--out", "out", "--runs-dir", recorded_runs)
    assert missing.code == 2
    assert "pip install 'fluxctl[parquet]'" in missing.err
    assert fluxctl("export", "--runs-dir", tmp_path / "none").code == 5
