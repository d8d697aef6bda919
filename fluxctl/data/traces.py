"""Availability traces and delay registries on disk: CSV with a header, or JSON Lines.

A trace file has one line per change, ``client, t_s, state``, or one per outage, ``client, start_s, duration_s``; the
names of the columns tell which. Lines of different clients may be mixed; those of one client are in time order. The
first thing that is wrong stops the reader with file and line: a trace that is silently half right spoils every result
that rests on it. Seconds are read as decimals, so that a written trace reads back to the nanosecond.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, NoReturn

from fluxctl.errors import ConfigError
from fluxctl.registry import suggestion
from fluxctl.types import NS_PER_S, Availability, ClientId, Ns, ns_from_s
from fluxctl.world.availability import Exhaustion, Timeline, Trace, TraceSpec, build_trace, require_clients

_CHANGES: Final = ("client", "t_s", "state")
_OUTAGES: Final = ("client", "start_s", "duration_s")
_DELAYS: Final = ("client", "duration_s")
_LONGEST_S: Final = Decimal(9_000_000_000)  # 285 years: nanoseconds still fit 64 bits


@dataclass(frozen=True, slots=True)
class _Line:
    """One record: its values by column name, as text or JSON values, and its place."""

    place: str
    values: Mapping[str, object]

    def fail(self, message: str, hint: str) -> NoReturn:
        raise ConfigError(message, hint=hint, where=self.place)

    def client(self) -> ClientId:
        value = self.values["client"]
        text = str(value)
        if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
            self.fail(f"client must be a whole number from 0, not {value!r}", "number the clients 0, 1, 2, ...")
        return int(text)

    def ns(self, column: str) -> Ns:
        value = self.values[column]
        try:
            seconds = Decimal("nan") if isinstance(value, bool) else Decimal(str(value).strip())
        except InvalidOperation:
            seconds = Decimal("nan")
        if not seconds.is_finite():
            self.fail(f"{column} must be a number of seconds, not {value!r}", "write seconds, for example 1200 or 0.5")
        if not 0 <= seconds <= _LONGEST_S:
            self.fail(f"{column} must be between 0 and {_LONGEST_S} s, not {value}", "count seconds from the run's start")
        return int((seconds * NS_PER_S).to_integral_value())

    def state(self) -> Availability:
        text = str(self.values["state"]).strip()
        if text not in {str(state) for state in Availability}:
            self.fail(f"unknown state '{text}'", suggestion(text, [str(state) for state in Availability]))
        return Availability(text)


def read_trace(
    path: Path, *, exhaustion: Exhaustion = Exhaustion.WRAP, horizon_s: float | None = None
) -> dict[ClientId, Timeline]:
    """Read a trace of changes or of outages.

    Before its first change a client is unavailable; outside its outages it can train. Of several changes at one time
    the last holds.

    Args:
        path: ``.csv``, or ``.jsonl`` / ``.ndjson``.
        exhaustion: What holds after the end.
        horizon_s: The end; None = the latest time in the file.

    Returns:
        A timeline for each client that the file names, all with the same end.

    Raises:
        ConfigError: With file and line: a malformed line, a negative, absurd or decreasing time, an unknown state.
    """
    columns, lines = _open(path, (_CHANGES, _OUTAGES))
    changes: dict[ClientId, list[tuple[Ns, Availability]]] = {}
    read = _add_change if columns == _CHANGES else _add_outage
    for line in lines:
        read(line, changes.setdefault(line.client(), []))
    if not changes:
        raise ConfigError("the trace has no record", hint=f"write lines of {', '.join(columns)}", where=str(path))
    latest = max(listed[-1][0] for listed in changes.values())
    if horizon_s is not None:
        end = max(1, ns_from_s(horizon_s))
    else:
        # The last state of all holds for a nanosecond at least, so that there is something to hold.
        end = max(latest + (exhaustion is Exhaustion.HOLD), 1)
    return {client: Timeline.of(listed, end, exhaustion) for client, listed in sorted(changes.items())}


def write_trace(path: Path, trace: Trace, clients: Iterable[ClientId], until: Ns) -> int:
    """Write the changes of clients over ``[0, until]``; :func:`read_trace` with the same exhaustion reads them back.

    Args:
        path: ``.csv``, or ``.jsonl`` / ``.ndjson``; replaced if it exists.
        trace: Where they come from.
        clients: Whose.
        until: End; each client's last line repeats its state there, so that the file says how long it is.

    Returns:
        Number of lines, the header not counted.
    """
    write = _csv_line if _is_csv(path) else _json_line
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if _is_csv(path):
            file.write(",".join(_CHANGES) + "\n")
        for client in clients:
            for t, state in _changes(trace, client, until):
                file.write(write(client, t, state))
                count += 1
    return count


def load_trace(spec: TraceSpec, seed: int, num_clients: int) -> Trace:
    """The trace of a description, read from its file if it has one.

    Raises:
        ConfigError: If the file is not right or lacks a client of the run.
    """
    if spec.path is None:
        return build_trace(spec, seed)
    timelines = read_trace(Path(spec.path), exhaustion=spec.exhaustion, horizon_s=spec.horizon_s)
    require_clients(timelines, num_clients, spec.path)
    return build_trace(spec, seed, timelines)


def require_length(timelines: Mapping[ClientId, Timeline], needed: Ns, name: str) -> None:
    """Check that an imported trace that ends for good lasts as long as a run may.

    Raises:
        ConfigError: If it is shorter and its exhaustion is ``stop``.
    """
    shortest = min(timelines.values(), key=lambda line: line.end)
    if shortest.exhaustion is Exhaustion.STOP and shortest.end < needed:
        raise ConfigError(
            f"{name} ends at {_seconds(shortest.end)} s, before the run's budget of {_seconds(needed)} s, and all "
            "clients are gone after that",
            hint="set exhaustion to wrap or hold, lower limits.max_runtime_s, or bring a longer trace",
            where="availability.trace",
        )


def read_delay_registry(path: Path) -> dict[ClientId, float]:
    """Read modelled durations, one line ``client, duration_s`` per client.

    Raises:
        ConfigError: With file and line: a malformed line, a duration that is not positive, a client named twice.
    """
    columns, lines = _open(path, (_DELAYS,))
    durations: dict[ClientId, float] = {}
    for line in lines:
        client, duration = line.client(), line.ns("duration_s")
        if duration == 0:
            line.fail("duration_s must be greater than 0", "a task takes time")
        if client in durations:
            line.fail(f"client {client} has a duration already", "keep one line per client")
        durations[client] = duration / NS_PER_S
    if not durations:
        raise ConfigError("the registry has no record", hint=f"write lines of {', '.join(columns)}", where=str(path))
    return durations


def _add_change(line: _Line, changes: list[tuple[Ns, Availability]]) -> None:
    t, state = line.ns("t_s"), line.state()
    _in_order(line, changes, t)
    changes.append((t, state))


def _add_outage(line: _Line, changes: list[tuple[Ns, Availability]]) -> None:
    start, duration = line.ns("start_s"), line.ns("duration_s")
    if not changes:
        changes.append((0, Availability.AVL_TRAIN))
    _in_order(line, changes, start, "an outage begins before the last one of this client has ended")
    changes += [(start, Availability.UN_AVL), (start + duration, Availability.AVL_TRAIN)]


def _in_order(
    line: _Line, changes: list[tuple[Ns, Availability]], t: Ns, message: str = "times of a client must not decrease"
) -> None:
    if changes and t < changes[-1][0]:
        line.fail(f"{message}: {_seconds(t)} s follows {_seconds(changes[-1][0])} s", "sort the file by client and time")


def _changes(trace: Trace, client: ClientId, until: Ns) -> Iterator[tuple[Ns, Availability]]:
    t: Ns | None = 0
    state = trace.state(client, 0)
    while t is not None and t < until:
        state = trace.state(client, t)
        yield t, state
        t = trace.next_change(client, t)
    yield until, state


def _csv_line(client: ClientId, t: Ns, state: Availability) -> str:
    return f"{client},{_seconds(t)},{state}\n"


def _json_line(client: ClientId, t: Ns, state: Availability) -> str:
    return f'{{"client":{client},"t_s":{_seconds(t)},"state":"{state}"}}\n'


def _seconds(ns: Ns) -> str:
    """Exact seconds as text, without trailing zeros."""
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)


def _is_csv(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".jsonl", ".ndjson"):
        raise ConfigError(
            f"the format of '{path.name}' is not known", hint="end its name in .csv or .jsonl", where=str(path)
        )
    return suffix == ".csv"


def _open(path: Path, layouts: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], Iterator[_Line]]:
    """Find out which columns a file has.

    Returns:
        The layout, and the file's lines with exactly these columns.
    """
    split = _csv_lines if _is_csv(path) else _json_lines
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("the file is not UTF-8 text", hint="save it as UTF-8", where=str(path)) from error
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", hint="check the path", where=str(path)) from None
    wanted = " or ".join(", ".join(layout) for layout in layouts)
    lines = split(text, path, f"the columns are {wanted}")
    first = next(lines, None)
    if first is None:
        return layouts[0], iter(())
    layout = next((layout for layout in layouts if set(layout) == set(first.values)), None)
    if layout is None:
        place = f"{path}:1" if _is_csv(path) else first.place
        found = ", ".join(map(str, first.values))
        raise ConfigError(f"unknown columns: {found}", hint=f"the columns are {wanted}", where=place)
    return layout, _same_columns(first, lines, layout)


def _same_columns(first: _Line, rest: Iterator[_Line], layout: tuple[str, ...]) -> Iterator[_Line]:
    yield first
    for line in rest:
        if set(line.values) != set(layout):
            line.fail(f"this record has {', '.join(map(str, line.values))}", f"each has {', '.join(layout)}")
        yield line


def _csv_lines(text: str, path: Path, hint: str) -> Iterator[_Line]:
    rows = csv.reader(text.splitlines(), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            line = _Line(f"{path}:{rows.line_num}", dict(zip(header, (cell.strip() for cell in row), strict=False)))
            if len(row) != len(header):
                line.fail(f"{len(row)} values in {len(header)} columns", hint)
            yield line
    except csv.Error as error:
        raise ConfigError(f"malformed CSV: {error}", hint=hint, where=f"{path}:{rows.line_num}") from None


def _json_lines(text: str, path: Path, hint: str) -> Iterator[_Line]:
    refuse: Callable[[str], NoReturn] = _refuse_constant
    for number, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        place = f"{path}:{number}"
        try:
            values = json.loads(raw, parse_float=Decimal, parse_constant=refuse)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"malformed JSON: {error}", hint=hint, where=place) from None
        if not isinstance(values, dict):
            raise ConfigError("a line must be a JSON object", hint=hint, where=place)
        yield _Line(place, values)


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not a number of JSON")
