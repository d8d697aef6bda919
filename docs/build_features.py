"""Fills in the tests column of ``docs/features.md`` from the feature markers in ``tests/``.

The other columns are written by hand. A row is ``done`` or ``partly`` when, and only when, a test carries its marker::

    python docs/build_features.py            # rewrite the column
    python docs/build_features.py --check    # change nothing; exit 1 if something is wrong

The disagreements that need a human (a marker on a planned row, a done row without a marker) are printed and never
repaired here.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "features.md"
TESTS = ROOT / "tests"
STATUSES = ("done", "partly", "planned")
NOTHING = "-"  # an empty cell
_ROW = re.compile(r"\| *([A-G]\d+[a-z]?) *\|")


@dataclass(frozen=True)
class Row:
    """One feature.

    Args:
        id: For example ``B12``.
        capability: What it does.
        status: ``done``, ``partly`` or ``planned``.
        command: What shows it, in back quotes; ``-`` while it is planned.
        tests: Files under ``tests/`` that carry its marker, in back quotes, separated by blanks; ``-`` for none.
    """

    id: str
    capability: str
    status: str
    command: str
    tests: str

    def line(self) -> str:
        """The row in Markdown."""
        return f"| {self.id} | {self.capability} | {self.status} | {self.command} | {self.tests} |"


def known_ids() -> list[str]:
    """Every id that the table must have, in its order."""
    sections = {"A": 36, "B": 24, "C": 18, "D": 75, "E": 33, "F": 25, "G": 8}
    engine_rows = [f"D0{letter}" for letter in "abcdefghij"]
    ids: list[str] = []
    for section, count in sections.items():
        ids += engine_rows if section == "D" else []
        ids += [f"{section}{number}" for number in range(1, count + 1)]
    return ids


def parse_row(line: str) -> Row | None:
    """The feature in a line of the table; None for any other line.

    Raises:
        ValueError: If the line has an id but not five cells.
    """
    if not _ROW.match(line):
        return None
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) != 5:
        raise ValueError(f"a row needs five cells, and no bar within them: {line}")
    return Row(*cells)


def rows_of(text: str) -> list[Row]:
    """All features in a page."""
    return [row for line in text.splitlines() if (row := parse_row(line)) is not None]


def _markers(tree: ast.AST) -> Iterator[str]:
    """Ids in every ``pytest.mark.feature(...)`` call: on a test, a class, a module or a parameter."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "feature"):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Attribute) and owner.attr == "mark":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def collect_markers(folder: Path) -> dict[str, list[str]]:
    """Id -> sorted files under ``folder`` that carry its marker."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        for feature in _markers(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            found.setdefault(feature, set()).add(path.relative_to(folder).as_posix())
    return {feature: sorted(files) for feature, files in found.items()}


def fill(text: str, markers: dict[str, list[str]]) -> str:
    """The page with its tests column up to date."""
    lines = []
    for line in text.splitlines():
        row = parse_row(line)
        if row is not None:
            tests = " ".join(f"`{file}`" for file in markers.get(row.id, [])) or NOTHING
            line = Row(row.id, row.capability, row.status, row.command, tests).line()  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines) + "\n"


def complaints(rows: list[Row], markers: dict[str, list[str]]) -> list[str]:
    """What only a human can repair."""
    ids = [row.id for row in rows]
    found = [f"{feature}: no row" for feature in known_ids() if feature not in ids]
    found += [f"{feature}: {ids.count(feature)} rows" for feature in sorted(set(ids)) if ids.count(feature) > 1]
    found += [f"{feature}: not a known id" for feature in ids if feature not in known_ids()]
    found += [
        f"{feature}: a marker in {files[0]} names no row"
        for feature, files in sorted(markers.items())
        if feature not in ids
    ]
    for row in rows:
        works = row.status in ("done", "partly")
        if row.status not in STATUSES:
            found.append(f"{row.id}: status '{row.status}' is none of {', '.join(STATUSES)}")
        if works and row.id not in markers:
            found.append(f"{row.id}: {row.status}, but no test carries its marker")
        if not works and row.id in markers:
            found.append(f"{row.id}: {row.status}, but {markers[row.id][0]} carries its marker")
        if works == (row.command == NOTHING):
            found.append(f"{row.id}: a row names the command that shows it when, and only when, it works")
    return found


def main(argv: list[str]) -> int:
    """Run the program; 1 if the table is wrong."""
    parser = argparse.ArgumentParser(description="Fill in the tests column of docs/features.md.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(argv)
    text, markers = TABLE.read_text(encoding="utf-8"), collect_markers(TESTS)
    filled = fill(text, markers)
    found = complaints(rows_of(filled), markers)
    if filled != text and options.check:
        found.append("the tests column is out of date: run python docs/build_features.py")
    elif filled != text:
        TABLE.write_text(filled, encoding="utf-8")
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
