"""Event files as columns: one pass, and only the fields that somebody asked for.

Parity rungs, figures and analyses read the same few numbers of many events. Here each kind of event becomes a table of
flat arrays, so a file of a gigabyte fits into the memory of its numbers, and lines of kinds that nobody wants are
counted without being parsed. This module must not interpret events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import orjson

from fluxctl.telemetry.builders import TableBuilder
from fluxctl.telemetry.reader import MAX_LINE_BYTES, Event, Problem, read_header
from fluxctl.telemetry.tables import (
    MISSING_INT,
    AbsentField,
    Column,
    Floats,
    Ints,
    Kind,
    Labels,
    Ragged,
    Table,
)

__all__ = [
    "MISSING_INT",
    "AbsentField",
    "Column",
    "Columns",
    "Floats",
    "Ints",
    "Kind",
    "Labels",
    "Ragged",
    "Table",
    "Wanted",
    "read_columns",
]
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Columns:
    """An event file as tables.

    Attributes:
        path: The file.
        header: Its first line.
        counts: Events of each kind, also of kinds that nobody asked for.
        tables: By kind; a kind that was asked for and does not occur is an empty table.
        meta: The ``run_meta`` event, empty if there is none.
        verdict: The ``verdict`` event, empty if there is none.
        last_ns: Engine time of the last event, in nanoseconds.
        problems: Damaged lines.
    """

    path: Path
    header: Event
    counts: Mapping[str, int]
    tables: Mapping[str, Table]
    meta: Event
    verdict: Event
    last_ns: int
    problems: tuple[Problem, ...]

    def __getitem__(self, event: str) -> Table:
        return self.tables[event]


Wanted: TypeAlias = "Mapping[str, Mapping[str, Kind]]"  # event -> path of a field -> how to store it


def read_columns(path: str | Path, wanted: Wanted) -> Columns:
    """Read an event file once.

    Paths of fields may step into objects (``wall.compute_s``) and into lists of objects
    (``contributor_intervals[].dispatch``, a list column).

    Args:
        path: ``events.jsonl`` of a run; damaged lines are left out and reported, NaN tokens count as null.
        wanted: What to keep.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    header = read_header(path)
    builders = {event: TableBuilder(event, fields) for event, fields in wanted.items()}
    by_name = {name.encode(): name for name in (*builders, "run_meta", "verdict")}
    counts: Counter[bytes] = Counter()
    single: dict[str, Event] = {"run_meta": {}, "verdict": {}}
    problems: list[Problem] = []
    last = b""
    for number, raw, is_whole in _lines(Path(path), problems):
        key = _name_of(raw)
        if key is not None and key not in by_name and is_whole and raw.endswith(b"}"):
            counts[key] += 1
            last = raw
            continue
        event = _decode(number, raw, problems, is_whole=is_whole)
        if event is None:
            continue
        name = str(event.get("event", ""))
        counts[name.encode(errors="replace")] += 1
        last = raw
        if name in single:
            single[name] = event
        if name in builders:
            builders[name].add(event)
    return Columns(
        Path(path),
        header,
        {name.decode(errors="replace"): count for name, count in counts.items()},
        {event: builder.table() for event, builder in builders.items()},
        single["run_meta"],
        single["verdict"],
        _time_of(last),
        tuple(problems),
    )


def _lines(path: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes, bool]]:
    """Lines after the header: number, bytes without the line break, and whether they had one."""
    with path.open("rb") as file:
        number, rest = 0, b""
        while block := file.read(_BLOCK_BYTES):
            lines = block.split(b"\n")
            lines[0] = rest + lines[0]
            rest = lines.pop()
            for line in lines:
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    problems.append(Problem(number, f"longer than {MAX_LINE_BYTES} bytes, skipped"))
                elif number > 1 and line and not line.isspace():
                    yield number, line, True
            if len(rest) > MAX_LINE_BYTES:
                rest = rest[: MAX_LINE_BYTES + 1]  # it is lost anyway; keep no more of it than shows that
        if number and rest.strip():
            yield number + 1, rest, False


_PREFIX: Final = b'{"event":"'


def _name_of(raw: bytes) -> bytes | None:
    """The event's name where a line begins with it, as our writer's do; None where it has to be parsed to know."""
    if not raw.startswith(_PREFIX):
        return None
    end = raw.find(b'"', len(_PREFIX))
    name = raw[len(_PREFIX) : end]
    return None if end < 0 or b"\\" in name else name


def _decode(number: int, raw: bytes, problems: list[Problem], *, is_whole: bool) -> Event | None:
    try:
        event = orjson.loads(raw)
    except ValueError:
        return _decode_leniently(number, raw, problems, is_whole=is_whole)
    if isinstance(event, dict):
        return event
    problems.append(Problem(number, "not a JSON object"))
    return None


def _decode_leniently(number: int, raw: bytes, problems: list[Problem], *, is_whole: bool) -> Event | None:
    """Parse what RFC 8259 forbids and other writers produce: NaN and infinities, read as null."""
    num_tokens = 0

    def null(_: str) -> None:
        nonlocal num_tokens
        num_tokens += 1

    try:
        event = json.JSONDecoder(parse_constant=null).decode(raw.decode())
    except (ValueError, RecursionError):
        problems.append(Problem(number, "not a JSON object" if is_whole else "torn last line, ignored"))
        return None
    if not isinstance(event, dict):
        problems.append(Problem(number, "not a JSON object"))
        return None
    if num_tokens:
        problems.append(Problem(number, f"{num_tokens} NaN or infinite numbers read as null"))
    return event


def _time_of(raw: bytes) -> int:
    try:
        t_ns = orjson.loads(raw).get("t_ns")
    except (ValueError, AttributeError):
        return 0
    return t_ns if isinstance(t_ns, int) else 0
