"""Events as Parquet, one file per kind, through pyarrow (extra ``parquet``); in batches, so memory is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fluxctl.export.tables import Schema, Value, rows, schemas, value_at
from fluxctl.export.target import fresh_folder, need

_BATCH_ROWS: Final = 10_000


def to_parquet(events: Path, folder: Path) -> list[Path]:
    """Write a run's events.

    Numbers keep their type, a column that holds integers and floats is float64; lists, objects and columns of mixed
    kinds are JSON text; null is null.

    Args:
        events: ``events.jsonl`` of a run.
        folder: Where to; an earlier export there is replaced.

    Returns:
        The files.

    Raises:
        NothingToDoError: If there are no events.
        ConfigError: If pyarrow is not installed or the folder cannot be written.
    """
    arrow, parquet = (need(name, "parquet", "an export to Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    tables = schemas(events)
    with fresh_folder(folder) as scratch:
        files = {table.event: _File(arrow, parquet, scratch / f"{table.event}.parquet", table) for table in tables}
        try:
            for kind, event in rows(events, tables):
                files[kind].add(event)
        finally:
            for file in files.values():
                file.close()
    return [folder / f"{table.event}.parquet" for table in tables]


@dataclass
class _File:
    """One table under way."""

    arrow: Any
    parquet: Any
    path: Path
    table: Schema
    _rows: list[list[Value]] = field(default_factory=list)

    def __post_init__(self) -> None:
        fields = [(path, self._type(kinds)) for path, kinds in self.table.columns.items()]
        self._schema = self.arrow.schema(fields)
        self._writer = self.parquet.ParquetWriter(self.path, self._schema)

    def add(self, event: Mapping[str, Any]) -> None:
        paths = self.table.columns
        self._rows.append([_shaped(value_at(dict(event), path), kinds) for path, kinds in paths.items()])
        if len(self._rows) == _BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = [list(column) for column in zip(*self._rows, strict=True)]
        arrays = [self.arrow.array(column, type=self._schema.field(i).type) for i, column in enumerate(columns)]
        self._writer.write_table(self.arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows.clear()

    def _type(self, kinds: tuple[str, ...]) -> Any:  # noqa: ANN401 (a type of pyarrow)
        arrow, held = self.arrow, set(kinds)
        if held == {"int"}:
            return arrow.int64()
        if held and held <= {"int", "float"}:
            return arrow.float64()
        if held == {"bool"}:
            return arrow.bool_()
        return arrow.string()


def _shaped(value: Value, kinds: tuple[str, ...]) -> Value:
    """A value as its column takes it."""
    if value is None:
        return None
    held = set(kinds)
    if len(held) == 1 and held <= {"int", "bool"}:
        return value
    if held <= {"int", "float"}:
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, str) else json.dumps(value)
