"""A run as tables, the shape that every format is written from: one table per kind of event.

A field that holds an object becomes columns with dotted names, a list becomes JSON text.
Rows keep the order of the file and every value stays what the event file says; nothing is computed here. Events are
streamed, so a file of any size fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from fluxctl.telemetry.manifest import Manifest, read_manifest
from fluxctl.telemetry.reader import Event, read_events

Value: TypeAlias = "str | int | float | bool | list[object] | dict[str, object] | None"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,80}")


@dataclass(frozen=True)
class Schema:
    """The columns of one table.

    Attributes:
        event: Kind of event that its rows are.
        columns: Path of a field -> kinds of its values, as in :class:`~fluxctl.telemetry.manifest.FieldUse`.
        num_rows: How many events there are.
    """

    event: str
    columns: Mapping[str, tuple[str, ...]]
    num_rows: int


def schemas(events: Path) -> list[Schema]:
    """What tables an event file makes; kinds of events whose name is no plain word are left out.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    manifest = read_manifest(events)
    tables = []
    for event, num_rows in manifest.num_events.items():
        if not _PLAIN_NAME.fullmatch(event):
            continue  # it would name a file
        columns: dict[str, tuple[str, ...]] = {"t_ns": ("int",)}
        columns |= {
            use.path: use.kinds
            for use in manifest.fields
            if use.event == event and use.num_present + use.num_null and not _is_opened(use.path, manifest, event)
        }
        tables.append(Schema(event, columns, num_rows))
    return tables


def _is_opened(path: str, manifest: Manifest, event: str) -> bool:
    return any(use.event == event and use.path.startswith(f"{path}.") for use in manifest.fields)


def rows(events: Path, tables: Sequence[Schema]) -> Iterator[tuple[str, Event]]:
    """Every event of the tables with its kind, in file order; damaged lines are left out."""
    kinds = {table.event for table in tables}
    for event in read_events(events):
        kind = str(event.get("event", ""))
        if kind in kinds:
            yield kind, event


def value_at(event: Event, path: str) -> Value:
    """The value at a dotted path; None where there is none. A name may itself hold a dot (``wall.versions.a.b``)."""
    value: object = event
    rest = path
    while rest and isinstance(value, dict):
        if rest in value:
            found: Value = value[rest]
            return found
        head, _, rest = rest.partition(".")
        value = value.get(head)
    return None
