"""Columns and tables: what an event file becomes when only its numbers matter.

Each kind of event is one table of flat arrays. A field that no event carries is no column: asking for it raises
:class:`AbsentField`, which readers turn into "skipped, because it is absent" instead of a wrong number. This module
must not read files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
