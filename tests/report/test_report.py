"""The page says what the runs hold, shows nothing as markup, and needs no network."""

import json
import re
import shutil
from html.parser import HTMLParser
from importlib import import_module

import pytest

from fluxctl.analyses.reading import together
from fluxctl.analyses.result import Grid, Measure
from fluxctl.report.gather import gather
from fluxctl.report.markup import Html, element, folded, grid_table, join, table
from fluxctl.report.page import render
from fluxctl.runs.index import list_runs, read_info
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Kind

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>&amp;'


class Reader(HTMLParser):
    """Text, tags and ids of a page; scripts are kept apart."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self.links, self.text, self.scripts = [], [], [], [], []
        self._stack = []
        self.feed(page)
        assert self._stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag not in ("meta", "link", "br", "hr"):
            self._stack.append(tag)

    def handle_endtag(self, tag):
        assert self._stack.pop() == tag

    def handle_data(self, data):
        (self.scripts if self._stack[-1:] == ["script"] else self.text).append(data)


@pytest.fixture(scope="module")
def page(recorded_runs):
    return render(gather("three runs", list_runs(recorded_runs)))


def test_everything_is_there(page, recorded_runs):
    reader = Reader(page)
    assert [name for name in reader.ids if "-" not in name and "_" not in name] == [
        "verdicts", "figures", "cost", "gate", "runs", "config", "provenance",
    ]  # fmt: skip
    text = " ".join(reader.text)
    for info in list_runs(recorded_runs):
        assert info.record.id in text
        assert info.verdict.reason in text
    expected = ["Self-checks", "The gate is below the reachable floor", "The least asked tenth", "full payloads"]
    expected += [
        "client steps took",
        "class mix",
        "var_threshold: 2.0",
        "presets/baselines/fluxtune.yaml",
        '"num_cpus"',
    ]
    assert [words for words in expected if words not in text] == []


def test_it_needs_no_network_and_carries_the_library_once(page):
    reader = Reader(page)
    assert [link for link in reader.links if not link.startswith("#")] == ["data:,"]
    assert sum(len(script) > 1_000_000 for script in reader.scripts) == 1
    assert len(page) < 9_000_000


def test_nothing_from_data_becomes_markup(recorded_runs, tmp_path):
    source = list_runs(recorded_runs)[0].folder
    folder = RunFolder(tmp_path / source.id)
    shutil.copytree(source.path, folder.path)
    record = json.loads(folder.run.read_text())
    folder.run.write_text(json.dumps({**record, "baseline": EVIL, "run_set": EVIL, "variant": EVIL}))
    verdict = json.loads(folder.verdict.read_text())
    folder.verdict.write_text(json.dumps({**verdict, "reason": EVIL}))
    finding = {"check": EVIL, "level": "warn", "message": EVIL, "hint": EVIL}
    folder.gate.write_text(json.dumps({"status": EVIL, "forced": True, "findings": [finding]}))
    (folder.path / "provenance.json").write_text(json.dumps({"x": EVIL}))
    (folder.path / "parity").mkdir()
    rung = {"id": "D1", "name": EVIL, "status": "FAIL", "cause": "root", "message": EVIL}
    pair = {"left": EVIL, "right": EVIL, "verdict": EVIL, "counts": {EVIL: 1}, "rungs": [rung]}
    (folder.path / "parity" / "other.json").write_text(json.dumps(pair))
    folder.config.write_text(folder.config.read_text() + f"# {EVIL}\n")
    text = folder.events.read_text().replace('"keep_going"', json.dumps(EVIL)).replace("var_good", "v")
    folder.events.write_text(text)
    page = render(gather(EVIL, [read_info(folder)]))
    outside = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
    assert "alert(" in outside
    assert "<img" not in outside
    assert "onerror=alert(1)&gt;" in outside
    reader = Reader(page)
    plain = len(Reader(render(gather("x", [read_info(source)]))).scripts)
    assert len(reader.scripts) == plain
    assert "parity" in reader.ids
    assert "gate" in reader.ids
    assert "img" not in reader.tags


def test_a_run_that_left_nothing_is_shown_for_what_it_is(recorded_runs, tmp_path):
    source = list_runs(recorded_runs)[0].folder
    folder = RunFolder(tmp_path / source.id)
    folder.path.mkdir()
    record = json.loads(source.run.read_text())
    folder.run.write_text(json.dumps(record))
    text = " ".join(Reader(render(gather("x", [read_info(folder)]))).text)
    assert "CRASHED" in text
    assert "Left out: everything from its events; there is no such event file." in text


@pytest.mark.parametrize("num_evaluations", [0, 1, 2])
def test_few_evaluations(recorded_runs, tmp_path, num_evaluations):
    source = list_runs(recorded_runs)[0].folder
    folder = RunFolder(tmp_path / source.id)
    shutil.copytree(source.path, folder.path)
    kept, lines = 0, []
    for line in folder.events.read_text().splitlines(keepends=True):
        if '"event":"agg_eval"' in line:
            kept += 1
            if kept > num_evaluations:
                continue
        lines.append(line)
    folder.events.write_text("".join(lines))
    text = " ".join(Reader(render(gather("x", [read_info(folder)]))).text)
    assert "The run must not be used: evaluations" in text
    assert "The gate is below the reachable floor" in text


def test_runs_that_must_not_be_compared_are_shown_without_a_comparison(recorded_runs, tmp_path):
    infos = list_runs(recorded_runs)[:2]
    folder = RunFolder(tmp_path / infos[1].record.id)
    shutil.copytree(infos[1].folder.path, folder.path)
    record = json.loads(folder.run.read_text())
    record["fingerprints"]["condition"] = "other"
    folder.run.write_text(json.dumps(record))
    text = " ".join(Reader(render(gather("x", [infos[0], read_info(folder)]))).text)
    assert "Left out: cost to a common accuracy;" in text


def twin_of(source, around):
    """A real run that did what a simulated one did, beside it."""
    shutil.copytree(source.path, around / source.id)
    real = RunFolder(around / source.id.replace("-sim-", "-real-"))
    shutil.copytree(source.path, real.path)
    record = json.loads(real.run.read_text())
    real.run.write_text(json.dumps({**record, "id": real.id, "mode": "real"}))
    return [read_info(RunFolder(around / source.id)), read_info(real)]


@pytest.mark.feature("F18")
def test_a_pair_is_compared_once_and_what_was_stored_is_shown_as_it_was(recorded_runs, tmp_path):
    infos = twin_of(list_runs(recorded_runs)[0].folder, tmp_path)
    report = gather("x", infos)
    (pair,) = report.parity
    assert (pair["left"], pair["right"]) == (infos[1].record.id, infos[0].record.id)
    assert len(pair["rungs"]) > 50
    text = " ".join(Reader(render(report)).text)
    assert f"{pair['left']} against {pair['right']}: {pair['verdict']}" in text
    assert pair["headline"] in text
    stored = infos[1].folder.path / "parity"
    assert not stored.exists()  # a report changes no run
    stored.mkdir()
    (stored / f"{infos[0].record.id}.json").write_text(json.dumps({"verdict": "AS STORED", "rungs": []}))
    assert [one["verdict"] for one in gather("x", infos).parity] == ["AS STORED"]
    assert gather("x", infos[:1]).parity == ()  # its twin is no part of that report


def test_runs_of_different_conditions_get_figures_of_their_own(recorded_runs, tmp_path):
    infos = list_runs(recorded_runs)
    folder = RunFolder(tmp_path / infos[-1].record.id)
    shutil.copytree(infos[-1].folder.path, folder.path)
    record = json.loads(folder.run.read_text())
    folder.run.write_text(json.dumps({**record, "fingerprints": {**record["fingerprints"], "condition": "other"}}))
    reader = Reader(render(gather("x", [*infos[:2], read_info(folder)])))
    text = " ".join(reader.text)
    assert "condition 1 of 2: fluxtune" in text
    assert "condition 2 of 2: fwdllm" in text
    assert {"c1-e1_accuracy", "c2-e1_accuracy"} <= set(reader.ids)
    assert "e1_accuracy" not in reader.ids
    assert "different conditions: fingerprints" in text


def test_what_several_readers_want_is_read_in_one_pass():
    assert together({"a": {"x": Kind.INT}}, {"a": {"y": Kind.FLOAT}, "b": {}}) == {
        "a": {"x": Kind.INT, "y": Kind.FLOAT},
        "b": {},
    }
    with pytest.raises(ValueError, match=r"a\.x is wanted as"):
        together({"a": {"x": Kind.INT}}, {"a": {"x": Kind.FLOAT}})


def test_one_pass_says_what_each_analysis_says_by_itself(recorded_runs):
    info = list_runs(recorded_runs)[-1]
    (part,) = gather("x", [info]).runs
    for analysis in part.analyses:
        if analysis.name != "fairness":
            alone = getattr(import_module(f"fluxctl.analyses.{analysis.name}"), analysis.name)(info.folder)
            assert alone.to_json() == analysis.to_json()


def test_markup():
    assert element("p", "<b>", Html("<i>x</i>"), class_='a"b') == '<p class="a&quot;b">&lt;b&gt;<i>x</i></p>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert join(["&", element("b", "x")]) == "&amp;<b>x</b>"
    assert folded("a<b", "c", is_open=True) == '<details open=""><summary>a&lt;b</summary>c</details>'
    assert '<td class="number">&lt;1</td>' in table(["n"], [["<1"]], [True])
    grid = grid_table(Grid("<t>", (Measure("k"), Measure("v", ",.0f")), (("<k>", 1234.0), ("z", None))))
    assert "&lt;k&gt;" in grid
    assert "1,234" in grid
    assert ">-<" in grid
