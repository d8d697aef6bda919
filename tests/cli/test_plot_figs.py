"""plot --figs through the program: labels find the newest runs of what they describe, and say what is missing."""

import json
import shutil
from pathlib import Path

import pytest

from fluxctl.runs.index import list_runs

VARIANTS = ("R1", "R2", "R3", "R4")


@pytest.fixture
def add(recorded_runs, tmp_path):
    """Copies a recorded run under another identity, each newer than the one before; returns its id."""
    source = list_runs(recorded_runs)[0]
    number = 0

    def copy(**identity):
        nonlocal number
        number += 1
        id = f"20300101-{number:06d}-copy-sim-{number:04x}"
        folder = tmp_path / "runs" / id
        shutil.copytree(source.folder.path, folder)
        record = json.loads((folder / "run.json").read_text())
        created = f"2030-01-01T00:00:{number:02d}+00:00"
        prints = {**record["fingerprints"], "seedless": identity.get("variant", ""), "run": id}
        record.update(id=id, created=created, pair=None, fingerprints=prints, **identity)
        (folder / "run.json").write_text(json.dumps(record))
        return id

    return copy


@pytest.mark.feature("B9", "F9", "F21")
def test_the_ablation_is_drawn_from_the_newest_run_of_each_variant(fluxctl, add):
    old = [add(run_set="ablation", baseline="fluxtune", variant=name, group="one") for name in VARIANTS]
    new = [add(run_set="ablation", baseline="fluxtune", variant=name, group="two") for name in VARIANTS]
    add(run_set="other", baseline="fluxtune", variant="R1", group="three")
    answer = fluxctl("plot", "all", "--figs", "ablation", "--json")
    assert answer.code == 0, answer.err
    data = answer.envelope["data"]
    assert [run["run"] for run in data["runs"]] == new
    labels = ["R1 base", "R2 + early commit", "R3 + gradient-aware rates", "R4 full"]
    assert [run["label"] for run in data["runs"]] == labels
    assert {figure["id"][:2] for figure in data["figures"]} == {"e1", "e3", "e4"}
    spec = json.loads(Path(next(f["json"] for f in data["figures"] if f["id"] == "e1_accuracy")).read_text())
    colours = [trace["line"]["color"] for trace in spec["data"] if trace.get("line", {}).get("dash")]
    assert len(set(colours)) == 4  # a ramp
    pinned = fluxctl("plot", "e1", "--figs", "ablation", "--run", f"R1 base={old[0]}", "--json").envelope["data"]
    assert [run["run"] for run in pinned["runs"]] == [old[0], *new[1:]]


@pytest.mark.feature("F9")
def test_a_label_without_a_run_says_where_it_stands_and_how_to_make_one(fluxctl, add):
    for name in VARIANTS[:3]:
        add(run_set="ablation", baseline="fluxtune", variant=name, group="one")
    answer = fluxctl("plot", "all", "--figs", "ablation", "--json")
    assert answer.code == 5
    error = answer.envelope["error"]
    assert "R4 full" in error["message"]
    assert error["where"].startswith("presets/figures/ablation.yaml:")
    assert "fluxctl launch --run-set ablation" in error["hint"]
    assert not (Path("runs") / "figures").exists()
