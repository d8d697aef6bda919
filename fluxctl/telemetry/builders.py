"""Turns batches of parsed events into columns.

Events of one kind are gathered and taken apart a batch at a time, one field after another: a comprehension over a
thousand events costs a fifth of a thousand calls, and most batches hold numbers of one type, which an array takes
whole. This module must not read files.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from fluxctl.telemetry.reader import Event
from fluxctl.telemetry.tables import MISSING_INT, Column, Kind, Labels, Ragged, Table

BATCH: Final = 256  # events; more is no faster and holds more of them in memory
_Values: TypeAlias = "list[Any]"  # of one field, JSON


class TableBuilder:
    """Gathers the wanted fields of one kind of event.

    Args:
        event: The kind.
        fields: Paths of fields and how to store them; see :func:`fluxctl.telemetry.columns.read_columns`.
    """

    def __init__(self, event: str, fields: Mapping[str, Kind]) -> None:
        self._event = event
        self._num_rows = 0
        self._batch: list[Event] = []
        self._columns = {path: _BUILDERS[kind]() for path, kind in fields.items()}
        self._root = _Step.of(self._columns)

    def add(self, event: Event) -> None:
        """Take one event."""
        self._batch.append(event)
        if len(self._batch) >= BATCH:
            self._flush()

    def table(self) -> Table:
        """What was gathered; the builder must not be used any more."""
        self._flush()
        columns = {path: builder.column() for path, builder in self._columns.items() if builder.num_present}
        present = {path: builder.num_present for path, builder in self._columns.items()}
        return Table(self._event, self._num_rows, columns, present)

    def _flush(self) -> None:
        self._num_rows += len(self._batch)
        if self._batch:
            self._root.take(self._batch)
        self._batch.clear()


class _Column(Protocol):
    """Grows by batches of values; None is a value that an event lacks."""

    num_present: int

    def extend(self, values: _Values) -> None: ...

    def column(self) -> Column: ...


class _Step:
    """One level of the objects in an event: the columns that end here, and the objects and lists further down."""

    def __init__(self) -> None:
        self.leaves: list[tuple[str, _Column]] = []
        self.objects: dict[str, _Step] = {}
        self.lists: list[tuple[str, str, _Column]] = []

    @classmethod
    def of(cls, columns: Mapping[str, _Column]) -> _Step:
        root = cls()
        for path, column in columns.items():
            step, rest = root, path
            while (dot := rest.find(".")) >= 0 and not rest[:dot].endswith("[]"):
                step, rest = step.objects.setdefault(rest[:dot], cls()), rest[dot + 1 :]
            name, is_list, inner = rest.partition("[].")
            if is_list:
                step.lists.append((name, inner, column))
            else:
                step.leaves.append((rest, column))
        return root

    def take(self, batch: Sequence[Event]) -> None:
        for name, column in self.leaves:
            column.extend(_pick(batch, name))
        for name, step in self.objects.items():
            step.take([value if type(value) is dict else {} for value in _pick(batch, name)])
        for name, inner, column in self.lists:
            column.extend([_inner(value, inner) for value in _pick(batch, name)])


def _pick(batch: Sequence[Event], name: str) -> _Values:
    try:
        return list(map(itemgetter(name), batch))
    except KeyError:
        return [event.get(name) for event in batch]


def _inner(value: object, name: str) -> _Values | None:
    if not isinstance(value, list):
        return None
    return [item.get(name) for item in value if isinstance(item, dict)]


def _float(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer beyond any float
        return math.nan


def _int(value: object) -> int:
    if isinstance(value, float):  # beyond 2**53 a float names no single integer
        value = int(value) if value.is_integer() and abs(value) <= 1 << 53 else None
    return int(value) if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else MISSING_INT


class _Numbers:
    """A column of numbers."""

    code: str
    convert: Any

    def __init__(self) -> None:
        self.num_present = 0
        self._values: array[Any] = array(self.code)

    def extend(self, values: _Values) -> None:
        self.num_present += len(values) - values.count(None)
        _append(self._values, values, self.convert)

    def column(self) -> Column:
        return np.frombuffer(self._values, dtype=np.dtype(self.code))


class _Floats(_Numbers):
    code = "d"
    convert = staticmethod(_float)


class _Ints(_Numbers):
    code = "q"
    convert = staticmethod(_int)


class _Labels:
    """A column of words, as numbers of distinct words."""

    def __init__(self) -> None:
        self.num_present = 0
        self._values: array[int] = array("q")
        self._codes: dict[str, int] = {}

    def extend(self, values: _Values) -> None:
        self.num_present += len(values) - values.count(None)
        codes = self._codes
        self._values.extend(-1 if value is None else codes.setdefault(str(value), len(codes)) for value in values)

    def column(self) -> Column:
        return Labels(np.frombuffer(self._values, dtype=np.int64), tuple(self._codes))


class _Lists:
    """A column of lists of numbers."""

    code: str
    convert: Any

    def __init__(self) -> None:
        self.num_present = 0
        self._values: array[Any] = array(self.code)
        self._offsets: array[int] = array("q", (0,))

    def extend(self, values: _Values) -> None:
        self.num_present += len(values) - values.count(None)
        for value in values:
            if isinstance(value, list):
                _append(self._values, value, self.convert)
            self._offsets.append(len(self._values))

    def column(self) -> Column:
        # A copy: an empty array has no buffer to borrow.
        return Ragged(np.array(self._values, dtype=np.dtype(self.code)), np.frombuffer(self._offsets, dtype=np.int64))


class _FloatLists(_Lists):
    code = "d"
    convert = staticmethod(_float)


class _IntLists(_Lists):
    code = "q"
    convert = staticmethod(_int)


def _append(target: array[Any], values: _Values, convert: Any) -> None:  # noqa: ANN401 (two functions)
    """Append numbers; what is null or no number becomes what ``convert`` says."""
    try:
        target.fromlist(values)  # takes all or nothing
    except (TypeError, OverflowError):
        target.extend([convert(value) for value in values])


_BUILDERS: Final[Mapping[Kind, type[_Floats | _Ints | _Labels | _FloatLists | _IntLists]]] = {
    Kind.FLOAT: _Floats,
    Kind.INT: _Ints,
    Kind.LABEL: _Labels,
    Kind.FLOATS: _FloatLists,
    Kind.INTS: _IntLists,
}
