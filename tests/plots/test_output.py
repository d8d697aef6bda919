"""The files of figures: pages without a network, numbers that read back, and a manifest that can be checked."""

import csv
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import plotly.graph_objects as go
import pytest

from fluxctl.errors import ConfigError
from fluxctl.plots.catalogue import EXPERIMENTS, draw
from fluxctl.plots.embed import script_json
from fluxctl.plots.group import Options, make_groups
from fluxctl.plots.output import new_folder, prepare_folder, write_figures
from fluxctl.runs.files import csv_text
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series

DEFAULTS = Options()
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028"


@pytest.fixture
def series(recorded_runs):
    return [read_series(info.folder.path) for info in list_runs(recorded_runs)]


def written(series, folder, options=DEFAULTS, label=""):
    groups = make_groups([(label, run) for run in series], options)
    figures = draw(list(EXPERIMENTS), groups, options)
    return write_figures(figures, groups, options, folder, formats=(), request={"argv": ["fluxctl", "plot"]})


class Tags(HTMLParser):
    """Which elements a page has, and what they load."""

    def __init__(self, text):
        super().__init__()
        self.names, self.loads = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        loading = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
        value = dict(attrs).get(loading.get(tag, ""))
        if value and not value.startswith("data:"):
            self.loads.append(value)


@pytest.mark.feature("F7")
def test_pages_carry_the_library_once_and_load_nothing(series, tmp_path):
    for one in written(series, tmp_path):
        text = one.html.read_text(encoding="utf-8")
        assert text.count("plotly.js v") == 1
        tags = Tags(text)
        assert tags.loads == []
        assert "default-src 'none'" in text
        assert f'id="{one.figure.id}"' in text


def test_labels_cannot_leave_their_place_in_a_page(series, tmp_path):
    same = [series[0]]
    kept = [Tags(one.html.read_text()).names for one in written(same, prepare_folder(tmp_path / "a"), label="plain")]
    odd = [Tags(one.html.read_text()).names for one in written(same, prepare_folder(tmp_path / "b"), label=HOSTILE)]
    assert kept == odd
    assert "</script" not in script_json({"text": HOSTILE})
    assert json.loads(script_json({"text": HOSTILE})) == {"text": HOSTILE}


@pytest.mark.feature("F1")
def test_specifications_and_tables_read_back(series, tmp_path):
    for one in written(series, tmp_path):
        spec = json.loads(one.json.read_text(), parse_constant=pytest.fail)
        go.Figure(spec)
        with one.csv.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        assert tuple(header) == one.figure.header
        assert len(rows) == len(one.figure.rows) > 0
        for row, cells in zip(rows, one.figure.rows, strict=True):
            for text, cell in zip(row, cells, strict=True):
                assert text == "" if cell is None else type(cell)(text) == cell


@pytest.mark.feature("F9")
def test_the_manifest_names_inputs_by_hash_and_files_that_exist(series, tmp_path):
    written(series, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    hashes = {run.facts.id: hashlib.sha256(run.facts.events.read_bytes()).hexdigest() for run in series}
    assert {entry["run"]: entry["sha256"] for entry in manifest["inputs"]} == hashes
    assert manifest["command"] == {"argv": ["fluxctl", "plot"]}
    there = {path.name for path in tmp_path.iterdir()}
    assert set(manifest["files"]) <= there
    assert there - set(manifest["files"]) == {"manifest.json"}


@pytest.mark.feature("F9")
def test_every_call_has_a_folder_of_its_own_and_latest_is_the_newest(tmp_path):
    folders = [new_folder(tmp_path) for _ in range(3)]
    assert len(set(folders)) == 3
    for folder in folders:
        assert folder.parent == tmp_path / "figures"
        assert re.fullmatch(r"\d{8}-\d{6}(-\d+)?", folder.name)
    latest = tmp_path / "figures" / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == folders[-1].resolve()
    assert str(latest.readlink()) == folders[-1].name  # relative: the folder can be moved


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    for make in (prepare_folder, new_folder):
        with pytest.raises(ConfigError, match="cannot write the figures"):
            make(tmp_path / "file" if make is prepare_folder else tmp_path / "file" / "sub")


def test_numbers_in_tables_keep_every_bit():
    text = csv_text(("a", "b", "c"), [(0.1 + 0.2, None, 'x,"y"\n')])
    ((_, *_), (a, b, c)) = csv.reader(text.splitlines(keepends=True))
    assert (float(a), b, c) == (0.1 + 0.2, "", 'x,"y"\n')


def test_the_note_of_mixed_conditions_is_seen_first(series, tmp_path):
    (one, *_) = written(series, tmp_path, Options(warning="These differ <a>."))
    text = one.html.read_text()
    assert text.index("These differ &lt;a&gt;.") < text.index(f'id="{one.figure.id}"')
    assert json.loads((tmp_path / "manifest.json").read_text())["warning"] == "These differ <a>."


def test_a_run_without_facts_is_written(series, tmp_path):
    bare = replace(series[0], facts=replace(series[0].facts, config=None, seed=None, condition="", summary={}))
    assert len(written([bare], tmp_path)) == 9
