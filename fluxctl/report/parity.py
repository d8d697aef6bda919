"""What parity says of the pairs of a report: as it was stored, else compared now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fluxctl.errors import FluxError, NothingToDoError
from fluxctl.parity.comparison import compare
from fluxctl.parity.pairing import twin_pair
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Options
from fluxctl.report.left_out import LeftOut
from fluxctl.report.markup import Html, element, folded, join, table
from fluxctl.runs.files import read_json
from fluxctl.runs.index import RunInfo
from fluxctl.runs.layout import RunFolder
from fluxctl.types import Mode

PairData: TypeAlias = "Mapping[str, Any]"  # what the parity verb says of a pair
_SILENT = ("PASS", "SKIP")  # of which only the full table tells


def stored(folder: RunFolder) -> list[PairData]:
    """What the parity verb wrote into a run's directory."""
    files = sorted((folder.path / "parity").glob("*.json"))
    return [
        {"left": folder.id, "right": file.stem, **_pair(data)}
        for file in files
        if (data := read_json(file)) is not None
    ]


def parity(infos: Sequence[RunInfo]) -> tuple[list[PairData], list[LeftOut]]:
    """The results of all pairs among runs, and what could not be compared."""
    found: dict[tuple[str, str], PairData] = {}
    for info in infos:
        for pair in stored(info.folder):
            found.setdefault((str(pair["left"]), str(pair["right"])), pair)
    left_out = []
    ids = {info.record.id for info in infos}
    for info in infos:
        if info.record.mode is not Mode.REAL:
            continue
        around = info.folder.path.parent
        try:
            twins = twin_pair(info.record.id, around)
            key = (twins.left.id, twins.right.id)
            if key not in found and ids.issuperset(key):
                found[key] = compare(twins, Options(), all_rungs(), around).to_json()
        except NothingToDoError:
            continue  # a real run without a twin is no pair
        except FluxError as error:
            left_out.append(LeftOut(f"parity of {info.record.id}", error.message))
    return list(found.values()), left_out


def _pair(data: PairData) -> PairData:
    """The pair within what was written: the object itself, or the first of its ``pairs``."""
    inner = data.get("data", data)
    pairs = inner.get("pairs") if isinstance(inner, dict) else None
    if isinstance(pairs, list) and pairs and isinstance(pairs[0], dict):
        return pairs[0]
    return inner if isinstance(inner, dict) else {}


def pair_html(pair: PairData) -> Html:
    """One pair: its verdict, the rungs that tell something, and all of them."""
    counts = pair.get("counts")
    told = ", ".join(f"{num} {name}" for name, num in counts.items() if num) if isinstance(counts, dict) else ""
    listed = pair.get("rungs")
    rungs = [rung for rung in listed if isinstance(rung, dict)] if isinstance(listed, list) else []
    rows = [[str(rung.get(name, "") or "") for name in ("id", "name", "status", "cause", "message")] for rung in rungs]
    telling = [row for row in rows if row[2] not in _SILENT]
    titles = ["id", "rung", "status", "cause", "finding"]
    parts: list[str] = [
        element("h3", f"{pair.get('left')} against {pair.get('right')}: {pair.get('verdict', 'no verdict')}")
    ]
    parts += [element("p", text) for text in (str(pair.get("headline") or ""), told) if text]
    if telling:
        parts.append(table(titles, telling))
    if rows:
        parts.append(folded(f"all {len(rows)} rungs", table(titles, rows)))
    return join(parts)
