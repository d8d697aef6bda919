"""The page on parity says what the registry and the mutation suite say."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> ModuleType:
    path = ROOT / "docs" / "build_parity.py"
    spec = importlib.util.spec_from_file_location("build_parity", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
TEXT = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8")
TABLES = [json.loads(path.read_text(encoding="utf-8")) for path in (TOOL.MUTATIONS, TOOL.ON_THE_WALL)]


def test_page_is_up_to_date() -> None:
    assert TOOL.fill(TEXT, TOOL.parts_of(*TABLES)) == TEXT, "run python docs/build_parity.py"


def test_every_rung_is_red_in_some_mutation_or_says_why_not() -> None:
    assert TOOL.complaints(*TABLES) == []


def test_a_rung_that_nobody_speaks_of_is_found() -> None:
    assert "D34: no mutation turns it red, and nobody says why" in TOOL.complaints({}, {})
    line = {"roots": ["D2"], "downstream": ["D999"], "warned": []}
    assert {"D2: a mutation turns it red", "D999: no such rung"} <= set(TOOL.complaints({"m": line}, {}))


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks of 'rungs'"):
        TOOL.fill("# Parity", TOOL.parts_of(*TABLES))
