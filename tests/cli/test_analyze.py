"""analyze through the program: sentence, tables, figures, JSON, exit codes."""

import csv
import json
import shutil

import pytest

from fluxctl.runs.index import list_runs


@pytest.fixture
def runs(recorded_runs, tmp_path, monkeypatch):
    """A copy of the recorded runs as the program's own runs folder."""
    shutil.copytree(recorded_runs, tmp_path / "runs", symlinks=True)
    monkeypatch.setenv("FLUXCTL_CACHE_DIR", str(recorded_runs.parent / "cache"))
    return tmp_path / "runs"


def check_figures(told, names):
    files = told["figures"]
    assert [file["html"].rsplit("/", 1)[1] for file in files] == [f"{name}.html" for name in names]
    for file in files:
        with open(file["html"], encoding="utf-8") as page:
            text = page.read()
        assert "Plotly.newPlot" in text
        assert 'src="http' not in text
        with open(file["csv"], newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}


QUESTIONS = [
    pytest.param("variance", ["variance", "variance_sweep"], marks=pytest.mark.feature("F15")),
    pytest.param("redundancy", ["redundancy"], marks=pytest.mark.feature("F14")),
    pytest.param("partition", ["partition_clients", "partition_commits"], marks=pytest.mark.feature("F16")),
    pytest.param("timing", ["timing_by_bin", "timing"], marks=pytest.mark.feature("F12")),
    pytest.param("jvp", ["jvp"], marks=pytest.mark.feature("F17")),
    pytest.param("fairness", ["fairness_participation", "fairness_accuracy"], marks=pytest.mark.feature("F25")),
    pytest.param("to-target", ["to_target"], marks=pytest.mark.feature("F24")),
    pytest.param("sanity", [], marks=pytest.mark.feature("F19")),
]


@pytest.mark.parametrize(("question", "figures"), QUESTIONS)
def test_every_question_is_answered_in_words_tables_figures_and_json(fluxctl, runs, monkeypatch, question, figures):
    monkeypatch.setenv("COLUMNS", "60")
    spoken = fluxctl("analyze", question, "fluxtune:sim")
    assert spoken.code == 0, spoken.err
    assert max(map(len, (line for line in spoken.out.splitlines() if not line.startswith("figure ")))) <= 60
    answer = fluxctl("analyze", question, "fluxtune:sim", "--json")
    assert answer.code == 0, answer.err
    told = answer.envelope
    assert (told["command"], told["status"]) == (f"analyze {question}", "ok")
    data = told["data"]
    assert (data["analysis"], data["is_ok"]) == (question, True)
    assert data["conclusion"].endswith(".")
    assert data["conclusion"].split()[0] in spoken.out
    check_figures(data, figures)


def test_figures_go_where_they_are_asked_to_or_nowhere(fluxctl, runs, tmp_path):
    told = fluxctl("analyze", "timing", "latest", "--json").envelope["data"]["figures"]
    assert told[0]["html"].startswith(f"{list_runs(runs)[-1].folder.path.relative_to(tmp_path)}/figures/")
    elsewhere = fluxctl("analyze", "timing", "latest", "--out", "here", "--json").envelope["data"]["figures"]
    assert elsewhere[0]["html"] == "here/timing_by_bin.html"
    assert fluxctl("analyze", "timing", "--no-figures", "--json").envelope["data"]["figures"] == []
    (tmp_path / "file").write_text("")
    answer = fluxctl("analyze", "timing", "--out", "file/sub")
    assert answer.code == 0
    assert "cannot write the figures" in answer.err
    assert "client steps took" in answer.out


def test_redundancy_above_the_limit_and_a_failed_check_are_a_no(fluxctl, runs):
    folder = list_runs(runs)[-1].folder
    lines = folder.events.read_text().splitlines(keepends=True)
    twice = [copy for line in lines for copy in [line] * (1 + ('"payload":"weights' in line))]
    folder.events.write_text("".join(twice))
    answer = fluxctl("analyze", "redundancy", "--max-frac", "0.25", "--json")
    assert (answer.code, answer.envelope["status"]) == (1, "no")
    assert answer.envelope["data"]["redundant_frac"] == 0.5
    assert fluxctl("analyze", "redundancy", "--max-frac", "0.5").code == 0
    assert fluxctl("analyze", "redundancy").code == 0
    failed = fluxctl("analyze", "sanity", "--json")
    assert (failed.code, failed.envelope["status"]) == (1, "no")
    found = {item["check"]: item["status"] for item in failed.envelope["data"]["findings"]}
    assert (found["full_payloads"], found["passes"]) == ("fail", "ok")


def test_variance_like_for_like(fluxctl, runs):
    told = fluxctl("analyze", "variance", "fluxtune:sim", "--max-bins", "2", "--json").envelope["data"]
    assert told["num_bins"] == 2
    own, *others = told["sweep"]
    assert own["label"] == "plateau N 3 eps 0.15, cap 20"
    assert own["label"] not in [item["label"] for item in others]
    assert {item["stopping_policy"] for item in others} == {"off", "fixed_cap", "plateau"}


def test_to_target_takes_the_newest_launch_seeds_together(fluxctl, runs):
    for info in list_runs(runs):
        record = json.loads(info.folder.run.read_text())
        info.folder.run.write_text(json.dumps({**record, "group": "one"}))
    told = fluxctl("analyze", "to-target", "--target", "0.05", "--json").envelope["data"]
    assert [(group["label"], group["num_seeds"]) for group in told["groups"]] == [("fluxtune", 2), ("fwdllm", 1)]
    assert all(group["step_memory_bytes"] > 0 for group in told["groups"])
    assert told["power"] == {"compute_watts": 3.0, "radio_watts": 1.0}
    missed = fluxctl("analyze", "to-target", "--target", "0.99", "--no-memory", "--no-figures")
    assert missed.code == 1
    assert "No run reaches an accuracy of 0.99." in missed.out
    wrong = fluxctl("analyze", "to-target", "--target", "high")
    assert wrong.code == 2
    assert "'high' is no accuracy" in wrong.err


def test_runs_of_different_conditions_are_refused(fluxctl, runs):
    first, second, _ = list_runs(runs)
    record = json.loads(first.folder.run.read_text())
    record["fingerprints"]["condition"] = "other"
    first.folder.run.write_text(json.dumps(record))
    words = [first.record.id, second.record.id]
    answer = fluxctl("analyze", "to-target", *words)
    assert answer.code == 2
    assert "different conditions" in answer.err
    assert fluxctl("analyze", "to-target", *words, "--allow-mixed", "--target", "0.05", "--no-memory").code == 0


def test_what_is_not_there_is_said(fluxctl, runs):
    assert fluxctl("analyze", "variance", "nobody").code == 2
    folder = list_runs(runs)[-1].folder
    (folder.path / "checkpoints" / "final.safetensors").unlink()
    told = fluxctl("analyze", "fairness")
    assert told.code == 0
    assert "the run left no checkpoint" in told.out.replace("\n", " ")
    assert "untrained model" in fluxctl("analyze", "jvp", "--tasks", "2").out.replace("\n", " ")
    other = list_runs(runs)[0].folder
    (other.path / "checkpoints" / "final.safetensors").write_bytes(b"damaged")
    answer = fluxctl("analyze", "fairness", other.id)
    assert answer.code == 2
    assert "the checkpoint cannot be read" in answer.err
    folder.events.write_text(folder.events.read_text().replace('"payload"', '"p"'))
    absent = fluxctl("analyze", "redundancy")
    assert absent.code == 5
    assert "no event of the run carries comm.payload" in absent.err
    folder.events.unlink()
    assert fluxctl("analyze", "sanity").code == 5


def test_no_runs_at_all(fluxctl):
    for question in ("variance", "to-target", "sanity"):
        assert fluxctl("analyze", question).code == 5
