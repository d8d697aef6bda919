"""Event files as columns: one pass, and only the fields that somebody asked for.

Parity rungs, figures and analyses read the same few numbers of many events. Here each kind of event becomes a table of
flat arrays, so a file of a gigabyte fits into the memory of its numbers, and lines of kinds that nobody wants are
counted without being parsed. A field that no event carries is no column: asking for it raises :class:`AbsentField`,
which readers turn into "skipped, because it is absent" instead of a wrong number. This module must not interpret
events.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxctl.telemetry.reader import MAX_LINE_BYTES, Event, Problem, read_header

MISSING_INT: Final = -(1 << 62)  # an integer that an event lacks or holds as null
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class Kind(StrEnum):
    """How a field is stored; what is null or missing becomes nan, :data:`MISSING_INT`, code -1 or an empty list."""

    FLOAT = "float"
    INT = "int"
    LABEL = "label"
    FLOATS = "floats"
    INTS = "ints"


class AbsentField(LookupError):  # noqa: N818 (a fact about the file, not an error)
    """No event of the file carries the field.

    Attributes:
        path: ``event.field``.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of words: ``names[codes[i]]`` is the word of row i, code -1 where there is none."""

    codes: Ints
    names: tuple[str, ...]

    def equals(self, name: str) -> NDArray[np.bool_]:
        """Rows that hold ``name``."""
        code = self.names.index(name) if name in self.names else -2
        return np.asarray(self.codes == code)

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Ragged:
    """A column of lists: row i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Floats | Ints
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Floats | Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Ints:
        """Number of values of each row."""
        return np.diff(self.offsets)


Column: TypeAlias = "Floats | Ints | Labels | Ragged"


@dataclass(frozen=True)
class Table:
    """All events of one kind, in file order.

    Attributes:
        event: Their kind.
        num_rows: How many there are.
        columns: By the path of the field; without those that no event carries.
        num_present: Events that carry each field with a value other than null.
    """

    event: str
    num_rows: int
    columns: Mapping[str, Column]
    num_present: Mapping[str, int]

    def __len__(self) -> int:
        return self.num_rows

    def __contains__(self, path: str) -> bool:
        return path in self.columns

    def _column(self, path: str) -> Column:
        try:
            return self.columns[path]
        except KeyError:
            raise AbsentField(f"{self.event}.{path}") from None

    def numbers(self, path: str) -> Floats:
        """A column of numbers as float64 of shape ``(num_rows,)``; nan where an event lacks it.

        Raises:
            AbsentField: If no event carries it.
        """
        column = self._column(path)
        assert isinstance(column, np.ndarray), path
        if column.dtype == np.int64:
            return np.where(column == MISSING_INT, np.nan, column.astype(np.float64))
        return column  # type: ignore[return-value]  # float64 by construction

    def ints(self, path: str) -> Ints:
        """A column declared as integers, int64 of shape ``(num_rows,)``; :data:`MISSING_INT` where an event lacks it.

        Raises:
            AbsentField: If no event carries it.
        """
        column = self._column(path)
        assert isinstance(column, np.ndarray), path
        assert column.dtype == np.int64, path
        return column  # type: ignore[return-value]  # checked above

    def labels(self, path: str) -> Labels:
        """A column of words.

        Raises:
            AbsentField: If no event carries it.
        """
        column = self._column(path)
        assert isinstance(column, Labels), path
        return column

    def lists(self, path: str) -> Ragged:
        """A column of lists.

        Raises:
            AbsentField: If no event carries it.
        """
        column = self._column(path)
        assert isinstance(column, Ragged), path
        return column

    def density(self, path: str) -> float:
        """Share of the events that carry the field with a value; 0 without events."""
        return self.num_present.get(path, 0) / self.num_rows if self.num_rows else 0.0


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
    builders = {event: _TableBuilder(event, fields) for event, fields in wanted.items()}
    counts: Counter[str] = Counter()
    single: dict[str, Event] = {"run_meta": {}, "verdict": {}}
    problems: list[Problem] = []
    last = b""
    for number, raw in _lines(Path(path)):
        name = _name_of(raw)
        if name is not None and name not in builders and name not in single and raw.endswith(b"}\n"):
            counts[name] += 1
            last = raw
            continue
        event = _decode(number, raw, problems)
        if event is None:
            continue
        name = str(event.get("event", ""))
        counts[name] += 1
        last = raw
        if name in single:
            single[name] = event
        if name in builders:
            builders[name].add(event)
    tables = {event: builder.table() for event, builder in builders.items()}
    return Columns(
        Path(path),
        header,
        counts,
        tables,
        single["run_meta"],
        single["verdict"],
        _time_of(last),
        tuple(problems),
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines after the header with their numbers; an overlong line comes in pieces, which do not parse."""
    with path.open("rb") as file:
        file.readline(MAX_LINE_BYTES)
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=2):
            if raw.strip():
                yield number, raw


_PREFIX: Final = b'{"event":"'


def _name_of(raw: bytes) -> str | None:
    """The event's name where a line begins with it, as our writer's do; None where it has to be parsed to know."""
    if not raw.startswith(_PREFIX):
        return None
    start = len(_PREFIX)
    return raw[start : raw.index(b'"', start)].decode() if b'"' in raw[start:] else None


def _decode(number: int, raw: bytes, problems: list[Problem]) -> Event | None:
    try:
        event = orjson.loads(raw)
    except ValueError:
        return _decode_leniently(number, raw, problems)
    if isinstance(event, dict):
        return event
    problems.append(Problem(number, "not a JSON object"))
    return None


def _decode_leniently(number: int, raw: bytes, problems: list[Problem]) -> Event | None:
    """Parse what RFC 8259 forbids and other writers produce: NaN and infinities, read as null."""
    num_tokens = 0

    def null(_: str) -> None:
        nonlocal num_tokens
        num_tokens += 1

    try:
        event = json.JSONDecoder(parse_constant=null).decode(raw.decode())
    except (ValueError, RecursionError):
        problems.append(Problem(number, "not a JSON object" if raw.endswith(b"\n") else "torn last line, ignored"))
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


class _TableBuilder:
    """Appends the wanted fields of events to growing arrays."""

    def __init__(self, event: str, fields: Mapping[str, Kind]) -> None:
        self._event = event
        self._num_rows = 0
        self._columns = {path: _BUILDERS[kind](_getter(path)) for path, kind in fields.items()}
        self._add = [column.add for column in self._columns.values()]

    def add(self, event: Event) -> None:
        self._num_rows += 1
        for add in self._add:
            add(event)

    def table(self) -> Table:
        present = {path: builder.num_present for path, builder in self._columns.items()}
        columns = {path: builder.column() for path, builder in self._columns.items() if present[path]}
        return Table(self._event, self._num_rows, columns, present)


def _getter(path: str) -> Callable[[Event], Any]:
    """A function from an event to its value at ``path``; None where there is none."""
    head, dot, rest = path.partition(".")
    if head.endswith("[]"):
        name, inner = head[:-2], _getter(rest)

        def items(event: Event) -> Any:  # noqa: ANN401 (JSON)
            value = event.get(name)
            return [inner(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else None

        return items
    if not dot:
        return lambda event: event.get(path)
    inner = _getter(rest)

    def step(event: Event) -> Any:  # noqa: ANN401 (JSON)
        value = event.get(head)
        return inner(value) if isinstance(value, dict) else None

    return step


@dataclass
class _ColumnBuilder:
    get: Callable[[Event], Any]
    num_present: int = 0

    def add(self, event: Event) -> None:
        raise NotImplementedError

    def column(self) -> Column:
        raise NotImplementedError


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _int(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else MISSING_INT


@dataclass
class _FloatColumn(_ColumnBuilder):
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, event: Event) -> None:
        value = self.get(event)
        self.num_present += value is not None
        self.values.append(_float(value))

    def column(self) -> Column:
        return np.frombuffer(self.values, dtype=np.float64)


@dataclass
class _IntColumn(_ColumnBuilder):
    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, event: Event) -> None:
        value = self.get(event)
        self.num_present += value is not None
        self.values.append(_int(value))

    def column(self) -> Column:
        return np.frombuffer(self.values, dtype=np.int64)


@dataclass
class _LabelColumn(_ColumnBuilder):
    values: array[int] = field(default_factory=lambda: array("q"))
    codes: dict[str, int] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        value = self.get(event)
        self.num_present += value is not None
        self.values.append(-1 if value is None else self.codes.setdefault(str(value), len(self.codes)))

    def column(self) -> Column:
        return Labels(np.frombuffer(self.values, dtype=np.int64), tuple(self.codes))


@dataclass
class _ListColumn(_ColumnBuilder):
    code: str = "d"
    convert: Callable[[object], float] = _float
    values: array[Any] = field(default_factory=lambda: array("d"))
    offsets: array[int] = field(default_factory=lambda: array("q", (0,)))

    def __post_init__(self) -> None:
        self.values = array(self.code)

    def add(self, event: Event) -> None:
        value = self.get(event)
        self.num_present += value is not None
        if isinstance(value, Sequence) and not isinstance(value, str):
            self.values.extend(map(self.convert, value))
        self.offsets.append(len(self.values))

    def column(self) -> Column:
        # A copy: an empty array has no buffer to borrow.
        values = np.array(self.values, np.float64) if self.code == "d" else np.array(self.values, np.int64)
        return Ragged(values, np.frombuffer(self.offsets, dtype=np.int64))


def _ints_column(get: Callable[[Event], Any]) -> _ColumnBuilder:
    return _ListColumn(get, code="q", convert=_int)


_BUILDERS: Final[Mapping[Kind, Callable[[Callable[[Event], Any]], _ColumnBuilder]]] = {
    Kind.FLOAT: _FloatColumn,
    Kind.INT: _IntColumn,
    Kind.LABEL: _LabelColumn,
    Kind.FLOATS: _ListColumn,
    Kind.INTS: _ints_column,
}
