"""Events as CSV, one file per kind; the standard library and nothing else."""

from __future__ import annotations

import csv
import json
from contextlib import ExitStack
from pathlib import Path

from fluxctl.export.tables import Value, rows, schemas, value_at
from fluxctl.export.target import fresh_folder


def to_csv(events: Path, folder: Path) -> list[Path]:
    """Write a run's events.

    An empty cell is null or absent; lists, objects and truth values are JSON.

    Args:
        events: ``events.jsonl`` of a run.
        folder: Where to; an earlier export there is replaced.

    Returns:
        The files.

    Raises:
        NothingToDoError: If there are no events.
        ConfigError: If the folder cannot be written.
    """
    tables = schemas(events)
    with fresh_folder(folder) as scratch, ExitStack() as stack:
        writers = {}
        for table in tables:
            file = stack.enter_context((scratch / f"{table.event}.csv").open("w", newline="", encoding="utf-8"))
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            writers[table.event] = (writer, tuple(table.columns))
        for kind, event in rows(events, tables):
            writer, paths = writers[kind]
            writer.writerow([_cell(value_at(event, path)) for path in paths])
    return [folder / f"{table.event}.csv" for table in tables]


def _cell(value: Value) -> object:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list | dict | bool) else value
