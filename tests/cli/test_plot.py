"""plot through the program: which runs, where the files go, what is refused."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from fluxctl.runs.index import list_runs

IDS = [
    "e1_accuracy",
    "e1_loss",
    "e2_utilisation",
    "e2_aggregator",
    "e3_productivity",
    "e4_traffic",
    "e4_sizes",
    "e5_sessions",
    "e5_participation",
]


@pytest.fixture
def runs(recorded_runs, tmp_path):
    """A copy of the recorded runs as the program's own runs folder, all of one launch."""
    folder = tmp_path / "runs"
    shutil.copytree(recorded_runs, folder, symlinks=True)
    for info in list_runs(folder):
        record = json.loads(info.folder.run.read_text())
        info.folder.run.write_text(json.dumps({**record, "group": "one"}))
    return folder


def edit(info, **changes):
    record = json.loads(info.folder.run.read_text())
    info.folder.run.write_text(json.dumps({**record, **changes}))


def table(figure):
    with Path(figure["csv"]).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.feature("F7", "F8")
def test_without_arguments_it_draws_all_of_the_newest_of_each_baseline_with_its_seeds(fluxctl, runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    spoken = fluxctl("plot")
    assert spoken.code == 0, spoken.err
    pages = [line for line in spoken.out.splitlines() if line.endswith(".html")]
    assert [Path(page).name for page in pages] == [f"e{number}.html" for number in range(1, 6)]
    assert all(Path(page).is_file() for page in pages)  # it goes where the program says
    assert max(len(line) for line in spoken.out.splitlines() if line not in pages) <= 60
    told = fluxctl("plot", "--json").envelope
    assert (told["command"], told["status"]) == ("plot", "ok")
    data = told["data"]
    assert [figure["id"] for figure in data["figures"]] == IDS
    for figure in data["figures"]:
        assert {"id", "html", "json", "csv", "pdf"} <= set(figure)
        assert all(Path(figure[kind]).is_file() for kind in ("html", "json", "csv"))
        assert figure["pdf"] is None
    assert sorted((run["label"], run["seed"]) for run in data["runs"]) == [
        ("fluxtune", 0),
        ("fluxtune", 1),
        ("fwdllm", 0),
    ]
    assert Path("runs/figures/latest").resolve() == Path(data["folder"]).resolve()
    assert json.loads(Path(data["summary"]).read_text())["runs"] == data["runs"]


@pytest.mark.feature("F1", "F2", "F3", "F4", "F5", "F6")
@pytest.mark.parametrize("number", range(1, 6))
def test_each_experiment_alone(fluxctl, runs, number):
    told = fluxctl("plot", f"e{number}", "fluxtune:sim", "--json").envelope["data"]
    assert [figure["id"] for figure in told["figures"]] == [id for id in IDS if id.startswith(f"e{number}_")]
    for figure in told["figures"]:
        assert len(table(figure)) > 0


@pytest.mark.feature("F1")
def test_axis_smoothing_and_cut_change_the_picture_and_no_number(fluxctl, runs):
    tables = []
    for options in (("--smooth", "1"), ("--smooth", "9"), ("--x", "passes"), ("--x", "bytes"), ("--x", "wall")):
        told = fluxctl("plot", "e1", "latest", "--cut", "none", *options, "--json").envelope["data"]
        tables.append(table(told["figures"][0]))
    assert all(other == tables[0] for other in tables)
    assert fluxctl("plot", "e1", "--cut", "half").code == 2
    assert fluxctl("plot", "e1", "--smooth", "0").code == 2


@pytest.mark.feature("F9")
def test_labels_pins_and_manifests(fluxctl, runs, tmp_path):
    pinned = fluxctl("plot", "e1", "--run", "a <b>=latest", "--run", "K = 10=latest~1", "--json").envelope["data"]
    assert [run["label"] for run in pinned["runs"]] == ["a <b>", "K = 10"]
    first, _, last = list_runs(runs)
    (tmp_path / "figs.yaml").write_text(f"figures: [e1, e4]\nlabels:\n  one: {first.record.id}\n  two: latest\n")
    drawn = fluxctl("plot", "all", "--figs", "figs.yaml", "--json").envelope["data"]
    assert [figure["id"] for figure in drawn["figures"]] == [id for id in IDS if id[:2] in ("e1", "e4")]
    assert [(run["label"], run["run"]) for run in drawn["runs"]] == [("one", first.record.id), ("two", last.record.id)]
    over = fluxctl("plot", "e1", "--figs", "figs.yaml", "--run", "one=latest~1", "--json").envelope["data"]
    assert [run["run"] for run in over["runs"]] == [list_runs(runs)[1].record.id, last.record.id]
    assert fluxctl("plot", "e1", "--run", "nothing").code == 2
    (tmp_path / "figs.yaml").write_text("figures: [e9]\nlabels: {one: latest}\n")
    wrong = fluxctl("plot", "all", "--figs", "figs.yaml")
    assert wrong.code == 2
    assert "figs.yaml:1:" in wrong.err


@pytest.mark.feature("F10")
def test_the_name_of_the_system_is_switched(fluxctl, runs):
    data = fluxctl("plot", "e1", "--system-name", "Ours", "--json").envelope["data"]
    assert {run["label"] for run in data["runs"]} == {"Ours", "fwdllm"}


@pytest.mark.feature("F8")
def test_mixed_conditions_are_refused_and_said_when_allowed(fluxctl, runs):
    info = list_runs(runs)[0]
    prints = {**info.record.fingerprints, "condition": "other"}
    edit(info, fingerprints=prints)
    refused = fluxctl("plot", "e1", info.record.id, "latest", "--json")
    assert (refused.code, refused.envelope["status"]) == (2, "error")
    assert "different conditions" in refused.envelope["error"]["message"]
    assert not (runs / "figures").exists()
    allowed = fluxctl("plot", "e1", info.record.id, "latest", "--allow-mixed", "--json")
    assert allowed.code == 0
    data = allowed.envelope["data"]
    assert "different conditions" in data["warning"]
    for figure in data["figures"]:
        assert "different conditions" in Path(figure["html"]).read_text()


def test_files_go_where_they_are_asked_to(fluxctl, runs, tmp_path):
    told = fluxctl("plot", "e3", "--out", "here", "--json").envelope["data"]
    assert told["figures"][0]["html"] == "here/e3.html"
    manifest = json.loads(Path("here/manifest.json").read_text())
    assert len(manifest["inputs"]) == 3
    (tmp_path / "file").write_text("")
    blocked = fluxctl("plot", "e3", "--out", "file")
    assert blocked.code == 2
    assert "cannot write the figures" in blocked.err


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("e6",), 2, "e6"),
        (("e1", "nosuchrun"), 2, "there is no run 'nosuchrun'"),
        (("e1", "--format", "gif"), 2, "there is no format 'gif'"),
        (("e1", "--figs", "nosuch"), 2, "there is no figure manifest 'nosuch'"),
    ],
)
def test_what_cannot_be_asked(fluxctl, runs, args, code, told):
    answer = fluxctl("plot", *args)
    assert answer.code == code
    assert told in answer.err


def test_without_runs_there_is_nothing_to_do(fluxctl):
    assert fluxctl("plot", "all").code == 5


def test_runs_that_crashed_early_are_drawn_or_named(fluxctl, runs):
    first, second, last = list_runs(runs)
    lines = first.folder.events.read_text().splitlines(keepends=True)
    first.folder.events.write_text("".join(lines[:2]))  # nothing but who it is
    second.folder.events.write_text("".join(lines[: len(lines) // 2]) + lines[-1][:20])
    answer = fluxctl("plot", "all", first.record.id, second.record.id, last.record.id, "--json")
    assert answer.code == 0, answer.err
    assert [run["evaluations"] for run in answer.envelope["data"]["runs"]][0] is not None
    last.folder.events.write_text("")
    empty = fluxctl("plot", "e1", last.record.id)
    assert empty.code == 5
    assert last.record.id in empty.err


@pytest.mark.feature("F10")
def test_without_a_browser_the_pages_are_complete_and_the_message_says_what_to_install(fluxctl, runs, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/nonexistent/browser")
    answer = fluxctl("plot", "e3", "--format", "html,png", "--out", "here")
    assert answer.code == 2
    assert "apt install chromium" in answer.err or "fluxctl[pdf]" in answer.err
    assert "complete in here" in answer.err
    assert Path("here/e3.html").is_file()
    assert not Path("here/e3_productivity.png").exists()


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def damage(info, case):
    """Make a run what the case says; its name is the run's own in the report, and a label in figures."""
    lines = info.folder.events.read_text().splitlines(keepends=True)
    if case.endswith("evaluations"):
        evals = [line for line in lines if line.startswith('{"event":"agg_eval"')]
        gone = set(evals[int(case[0]) :])
        info.folder.events.write_text("".join(line for line in lines if line not in gone))
    elif case == "crashed":
        info.folder.verdict.unlink()
        info.folder.events.write_text("".join(lines[: len(lines) // 2]) + lines[-2][:40])
    else:
        edit(info, baseline=EVIL if case == "markup" else "x" * 500)


@pytest.mark.feature("F1", "F7")
@pytest.mark.parametrize("case", ["0 evaluations", "1 evaluations", "2 evaluations", "crashed", "markup", "long"])
def test_every_figure_and_the_report_of_an_unusual_run(fluxctl, runs, case):
    info = list_runs(runs)[-1]
    damage(info, case)
    label = {"markup": EVIL, "long": "L" * 500}.get(case, "run")
    drawn = fluxctl("plot", "--run", f"{label}={info.record.id}", "--json")
    assert drawn.code == 0, drawn.err
    figures = drawn.envelope["data"]["figures"]
    assert [figure["id"] for figure in figures] == IDS
    pages = [Path(page).read_text() for page in {figure["html"] for figure in figures}]
    reported = fluxctl("report", info.record.id)
    assert reported.code == 0, reported.err
    report = Path(reported.out.strip()).read_text()
    for page in (*pages, report):
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "L" * 200 not in page.partition("<main>")[0]
    assert "Traceback" not in drawn.err + reported.err
    num_lacking = {"0": 3, "1": 1}.get(case[0], 0)  # of E1 and E3
    assert report.count("<p>No figure: ") == num_lacking
    assert report.count('<div id="e') == len(IDS) - num_lacking


@pytest.mark.feature("F10")
def test_panels_have_pdfs_of_their_own(fluxctl, runs, monkeypatch):
    made = []
    monkeypatch.setattr("fluxctl.commands.plot.write_images", made.extend)
    figures = fluxctl("plot", "--format", "pdf", "--json").envelope["data"]["figures"]
    panels = {figure["id"]: [panel["id"] for panel in figure["panels"]] for figure in figures}
    assert {name: ids for name, ids in panels.items() if ids} == {
        "e2_aggregator": [f"e2_aggregator_{part}" for part in ("aggregate", "eval", "wait", "rest")],
        "e3_productivity": [f"e3_productivity_{cost}" for cost in ("compute_h", "million_passes", "gigabytes")],
        "e4_traffic": ["e4_traffic_down", "e4_traffic_up"],
    }
    told = [figure["pdf"] for figure in figures] + [panel["pdf"] for figure in figures for panel in figure["panels"]]
    assert sorted(told) == sorted(str(image.path) for image in made)
    assert all(len(image.figure.traces) == 2 for image in made if image.figure.id in panels["e3_productivity"])
    plain = fluxctl("plot", "e3", "--format", "png", "--json").envelope["data"]["figures"]
    assert plain[0]["panels"] == []
