"""Records of a few named columns on disk, CSV with a header or JSON Lines, each with its place in the file.

What reads data that a person made must say where it is wrong. The first thing that is wrong stops the reader with file
and line. Numbers are read as decimals, so that what was written in nanoseconds reads back exactly.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, NoReturn

from fluxctl.config.problems import shown
from fluxctl.errors import ConfigError
from fluxctl.types import NS_PER_S, ClientId, Ns

_CLIENT_DIGITS: Final = 18  # client ids fit 64 bits
_LONGEST_S: Final = Decimal(9_000_000_000)  # 285 years: nanoseconds still fit 64 bits


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its values by column name, as text or JSON values, and its place."""

    place: str
    values: Mapping[str, object]

    def fail(self, message: str, hint: str) -> NoReturn:
        """Stop reading here."""
        raise ConfigError(message, hint=hint, where=self.place)

    def client(self) -> ClientId:
        """The column ``client``: a whole number from 0."""
        value = self.values["client"]
        text = str(value)
        if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= _CLIENT_DIGITS):
            self.fail(f"client must be a whole number from 0, not {shown(value)}", "number the clients 0, 1, 2, ...")
        return int(text)

    def ns(self, column: str) -> Ns:
        """A column of seconds, in nanoseconds; at least 0."""
        value = self.values[column]
        try:
            seconds = Decimal("nan") if isinstance(value, bool) else Decimal(str(value).strip())
        except InvalidOperation:
            seconds = Decimal("nan")
        if not seconds.is_finite():
            self.fail(
                f"{column} must be a number of seconds, not {shown(value)}", "write seconds, for example 1200 or 0.5"
            )
        if not 0 <= seconds <= _LONGEST_S:
            self.fail(
                f"{column} must be from 0 to {_LONGEST_S} s, not {shown(value)}", "count seconds from the run's start"
            )
        return int((seconds * NS_PER_S).to_integral_value())


def is_csv(path: Path) -> bool:
    """Whether a file's name says CSV, and not JSON Lines.

    Raises:
        ConfigError: If it says neither.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".jsonl", ".ndjson"):
        raise ConfigError(
            f"the format of '{path.name}' is not known", hint="end its name in .csv or .jsonl", where=str(path)
        )
    return suffix == ".csv"


def read_records(path: Path, layouts: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], Iterator[Record]]:
    """Find out which columns a file has.

    Args:
        path: ``.csv``, or ``.jsonl`` / ``.ndjson``.
        layouts: Columns that it may have.

    Returns:
        The layout, and the file's records with exactly these columns.

    Raises:
        ConfigError: If it cannot be read or has none of the layouts; while records are taken, if one is malformed.
    """
    split = _csv_lines if is_csv(path) else _json_lines
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("the file is not UTF-8 text", hint="save it as UTF-8", where=str(path)) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"the file cannot be read: {why}", hint="check the path", where=str(path)) from None
    wanted = " or ".join(", ".join(layout) for layout in layouts)
    lines = split(text, path, f"the columns are {wanted}")
    first = next(lines, None)
    if first is None:
        return layouts[0], iter(())
    layout = next((layout for layout in layouts if set(layout) == set(first.values)), None)
    if layout is None:
        place = f"{path}:1" if is_csv(path) else first.place
        found = shown(", ".join(map(str, first.values)))
        raise ConfigError(f"unknown columns: {found}", hint=f"the columns are {wanted}", where=place)
    return layout, _same_columns(first, lines, layout)


def _same_columns(first: Record, rest: Iterator[Record], layout: tuple[str, ...]) -> Iterator[Record]:
    yield first
    for line in rest:
        if set(line.values) != set(layout):
            line.fail(f"this record has {', '.join(map(str, line.values))}", f"each has {', '.join(layout)}")
        yield line


def _csv_lines(text: str, path: Path, hint: str) -> Iterator[Record]:
    rows = csv.reader(text.splitlines(), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if len(set(header)) != len(header):
            raise ConfigError(f"unknown columns: {shown(', '.join(header))}", hint=hint, where=f"{path}:1")
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            line = Record(f"{path}:{rows.line_num}", dict(zip(header, (cell.strip() for cell in row), strict=False)))
            if len(row) != len(header):
                line.fail(f"{len(row)} values in {len(header)} columns", hint)
            yield line
    except csv.Error as error:
        raise ConfigError(f"malformed CSV: {error}", hint=hint, where=f"{path}:{rows.line_num}") from None


def _json_lines(text: str, path: Path, hint: str) -> Iterator[Record]:
    for number, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        place = f"{path}:{number}"
        try:
            values = json.loads(raw, parse_float=Decimal, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"malformed JSON: {error}", hint=hint, where=place) from None
        if not isinstance(values, dict):
            raise ConfigError("a line must be a JSON object", hint=hint, where=place)
        yield Record(place, values)


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not a number of JSON")
