"""The feature table, the markers of the tests and the statuses say the same."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> ModuleType:
    path = ROOT / "docs" / "build_features.py"
    spec = importlib.util.spec_from_file_location("build_features", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
TEXT = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
MARKERS = TOOL.collect_markers(ROOT / "tests")


def test_table_has_every_id_once_and_in_order() -> None:
    assert [row.id for row in TOOL.rows_of(TEXT)] == TOOL.known_ids()


def test_known_ids_are_the_owners_list() -> None:
    ids = TOOL.known_ids()
    assert len(ids) == len(set(ids)) == 36 + 24 + 18 + 10 + 75 + 33 + 25 + 8
    assert {"A1", "A36", "B24", "C18", "D0a", "D0j", "D1", "D75", "E33", "F25", "G8"} <= set(ids)


def test_rows_that_work_are_the_rows_with_tests() -> None:
    working = {row.id for row in TOOL.rows_of(TEXT) if row.status in ("done", "partly")}
    assert sorted(working - set(MARKERS)) == []
    assert sorted(set(MARKERS) - working) == []


def test_tests_column_is_up_to_date() -> None:
    listed = {row.id: row.tests for row in TOOL.rows_of(TEXT)}
    filled = {row.id: row.tests for row in TOOL.rows_of(TOOL.fill(TEXT, MARKERS))}
    assert listed == filled, "run python docs/build_features.py"


def test_nothing_is_left_to_complain_about() -> None:
    assert TOOL.complaints(TOOL.rows_of(TEXT), MARKERS) == []


def row(**changes: str) -> object:
    cells = {"id": "A1", "capability": "x", "status": "done", "command": "`launch`", "tests": "-"}
    return TOOL.Row(**(cells | changes))


@pytest.mark.parametrize(
    ("changes", "markers", "complaint"),
    [
        ({}, {}, "A1: done, but no test carries its marker"),
        ({"status": "planned", "command": "-"}, {"A1": ["a.py"]}, "A1: planned, but a.py carries its marker"),
        ({"command": "-"}, {"A1": ["a.py"]}, "A1: a row names the command that shows it when, and only when, it works"),
        ({"status": "soon"}, {}, "A1: status 'soon' is none of done, partly, planned"),
        ({}, {"A1": ["a.py"], "A99": ["b.py"]}, "A99: a marker in b.py names no row"),
        ({"id": "A0"}, {}, "A0: not a known id"),
    ],
)
def test_disagreements_are_reported(changes: dict[str, str], markers: dict[str, list[str]], complaint: str) -> None:
    found = TOOL.complaints([row(**changes)], markers)
    assert complaint in found
    assert "B1: no row" in found


def test_a_row_that_occurs_twice_is_reported() -> None:
    assert "A1: 2 rows" in TOOL.complaints([row(), row()], {"A1": ["a.py"]})


def test_markers_are_found_wherever_they_may_stand(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_a.py").write_text(
        'import pytest\npytestmark = [pytest.mark.demo, pytest.mark.feature("A1")]\n'
        '@pytest.mark.feature("A2", "A3")\nclass TestIt:\n    pass\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.feature("A4"))])\n'
        "def test_it(x):\n    text = 'pytest.mark.feature(\"A5\")'\n"
    )
    (tmp_path / "test_b.py").write_text('import pytest\n@pytest.mark.feature("A2")\ndef test_b():\n    pass\n')
    assert TOOL.collect_markers(tmp_path) == {
        "A1": ["sub/test_a.py"],
        "A2": ["sub/test_a.py", "test_b.py"],
        "A3": ["sub/test_a.py"],
        "A4": ["sub/test_a.py"],
    }


def test_fill_changes_the_last_column_only() -> None:
    head = "# Title\n\n| id | capability | status | command | tests |\n|---|---|---|---|---|\n"
    page = head + "| A1 | x | done | `c` | - |\n"
    assert TOOL.fill(page, {"A1": ["b.py", "c.py"]}) == page.replace("| - |", "| `b.py` `c.py` |")
    assert TOOL.fill(TOOL.fill(page, {"A1": ["b.py"]}), {}) == page


def test_a_bar_within_a_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="five cells"):
        TOOL.parse_row("| A1 | one | two | done | `c` | - |")


def test_check_writes_nothing_and_exits_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "features.md"
    page.write_text("| A1 | x | done | `c` | `gone.py` |\n")
    tests = tmp_path / "tests"
    tests.mkdir()
    monkeypatch.setattr(TOOL, "TABLE", page)
    monkeypatch.setattr(TOOL, "TESTS", tests)
    assert TOOL.main(["--check"]) == 1
    assert "gone.py" in page.read_text()
    assert "out of date" in capsys.readouterr().err
    assert TOOL.main([]) == 1
    assert "gone.py" not in page.read_text()
