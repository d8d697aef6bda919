"""Reads event files line by line, whoever wrote them and however they ended.

A damaged line costs that line and nothing else: it is reported with its number and reading goes on. Memory is bounded
by the longest line. This module must not interpret events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.telemetry.events import HEADER, SCHEMA_VERSION

Event: TypeAlias = dict[str, Any]
MAX_LINE_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be taken as it stands.

    Attributes:
        line: Its number, from 1.
        message: What is wrong with it.
    """

    line: int
    message: str


class _Decoder:
    """Parses lines; NaN tokens, which RFC 8259 forbids and other writers produce, are read as null and counted."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._decode = json.JSONDecoder(parse_constant=self._constant).decode

    def _constant(self, _: str) -> None:
        self.num_tokens += 1

    def object(self, raw: bytes) -> Event | None:
        """The line's object, or None if it does not hold one."""
        try:
            value = self._decode(raw.decode())
        except (ValueError, RecursionError):  # bad JSON, bad UTF-8, or brackets nested beyond reason
            return None
        return value if isinstance(value, dict) else None


def read_lines(path: str | Path, problems: list[Problem] | None = None) -> Iterator[tuple[int, Event]]:
    """Yield the objects of a JSON Lines file with their line numbers.

    Args:
        path: Any JSON Lines file, for example ``wall.jsonl``.
        problems: Receives what could not be read, while reading.

    Raises:
        NothingToDoError: If the file does not exist.
    """
    problems = [] if problems is None else problems
    decoder = _Decoder()
    try:
        file = Path(path).open("rb")  # noqa: SIM115 (closed by the with below; only opening may fail here)
    except FileNotFoundError:
        raise NothingToDoError("there is no such event file", where=str(path)) from None
    with file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            is_whole = raw.endswith(b"\n")
            if not is_whole and len(raw) == MAX_LINE_BYTES:
                problems.append(Problem(number, f"longer than {MAX_LINE_BYTES} bytes, skipped"))
                _skip_line(file)
                continue
            if not raw.strip():
                continue
            decoder.num_tokens = 0
            value = decoder.object(raw)
            if value is None:
                problems.append(Problem(number, "not a JSON object" if is_whole else "torn last line, ignored"))
                continue
            if decoder.num_tokens:
                problems.append(Problem(number, f"{decoder.num_tokens} NaN or infinite numbers read as null"))
            yield number, value


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def read_header(path: str | Path) -> Event:
    """Return the header of an event file.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    return _first_line(path, read_lines(path))


def _first_line(path: str | Path, lines: Iterator[tuple[int, Event]]) -> Event:
    """The header, from the lines of a file that has not been read yet."""
    first = next(lines, None)
    if first is not None:
        return _checked_header(path, *first)
    with Path(path).open("rb") as file:
        start = file.readline(MAX_LINE_BYTES)
    if start.strip() and start.endswith(b"\n"):  # a torn one may be a header that is still being written
        raise ConfigError("this is no event file of fluxctl: no line of it is a JSON object", where=str(path))
    raise NothingToDoError("the event file is empty", where=str(path))


def _checked_header(path: str | Path, number: int, event: Event) -> Event:
    where = f"{path}:{number}"
    if event.get("event") != HEADER:
        raise ConfigError("this is no event file of fluxctl: it does not begin with a header", where=where)
    version = event.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"the events have schema version {version}, this fluxctl reads version {SCHEMA_VERSION}",
            hint="read them with the version of fluxctl that wrote them",
            where=where,
        )
    return event


def read_events(path: str | Path, problems: list[Problem] | None = None) -> Iterator[Event]:
    """Yield the events of a run in file order, without the header.

    Args:
        path: ``events.jsonl`` of a run.
        problems: Receives damaged lines, a torn last line and NaN tokens, with line numbers, while reading.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    lines = read_lines(path, problems)
    _first_line(path, lines)
    for _, event in lines:
        yield event
