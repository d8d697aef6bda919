"""Tables as CSV files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fluxctl.errors import ConfigError
from fluxctl.runs.files import write_text


def write_csv(path: Path, fields: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Replace a CSV file in one step: a header and one line per row, empty where a row has nothing.

    Raises:
        ConfigError: If it cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in fields])
    try:
        write_text(path, text.getvalue())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot write the file: {reason}", where=str(path)) from None


def _cell(value: object) -> object:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list | tuple | bool) else value
