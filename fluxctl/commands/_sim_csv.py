"""Tables as CSV files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fluxctl.errors import ConfigError, os_reason
from fluxctl.runs.files import csv_text, write_text


def write_csv(path: Path, fields: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Replace a CSV file in one step: a header and one line per row, empty where a row has nothing.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        write_text(path, csv_text(fields, [[_cell(row.get(name)) for name in fields] for row in rows]))
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot write the file: {reason}", where=str(path)) from None


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list | tuple | bool) else value
