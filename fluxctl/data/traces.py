"""Availability traces and delay registries on disk: CSV with a header, or JSON Lines.

A trace file has one line per change, ``client, t_s, state``, or one per outage, ``client, start_s, duration_s``; the
names of the columns tell which. Lines of different clients may be mixed; those of one client are in time order. A trace
that is silently half right spoils every result that rests on it, so nothing is guessed or skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from fluxctl.data.records import Record, is_csv, read_records
from fluxctl.errors import ConfigError
from fluxctl.registry import suggestion
from fluxctl.types import NS_PER_S, Availability, ClientId, Ns, ns_from_s
from fluxctl.world.availability import Exhaustion, Timeline, Trace, TraceSpec, build_trace, require_clients

_CHANGES: Final = ("client", "t_s", "state")
_OUTAGES: Final = ("client", "start_s", "duration_s")
_DELAYS: Final = ("client", "duration_s")


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
    columns, lines = read_records(path, (_CHANGES, _OUTAGES))
    changes: dict[ClientId, list[tuple[Ns, Availability]]] = {}
    read = _add_change if columns == _CHANGES else _add_outage
    for line in lines:
        read(line, changes.setdefault(line.client(), []))
    if not changes:
        raise ConfigError("the trace has no record", hint=f"write lines of {', '.join(columns)}", where=str(path))
    # A last state that shall hold lasts a nanosecond at least, so that there is something to hold.
    latest = max(listed[-1][0] for listed in changes.values()) + (exhaustion is Exhaustion.HOLD)
    end = max(1, latest if horizon_s is None else ns_from_s(horizon_s))
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
    write = _csv_line if is_csv(path) else _json_line
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if is_csv(path):
            file.write(",".join(_CHANGES) + "\n")
        for client in clients:
            for t, state in _changes(trace, client, until):
                file.write(write(client, t, state))
                count += 1
    return count


def write_outages(path: Path, trace: Trace, clients: Iterable[ClientId], until: Ns) -> int:
    """Write the outages of clients over ``[0, until]``; :func:`read_trace` reads them back.

    Args:
        path: ``.csv``, or ``.jsonl`` / ``.ndjson``; replaced if it exists.
        trace: Where they come from; of two states.
        clients: Whose.
        until: End; each client's last line is an outage of no length there, so that the file says how long it is.

    Returns:
        Number of lines, the header not counted.

    Raises:
        ConfigError: If a client is in a third state, which a list of outages has no word for.
    """
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if is_csv(path):
            file.write(",".join(_OUTAGES) + "\n")
        for client in clients:
            for start, duration in _outages(trace, client, until):
                file.write(_outage_line(client, start, duration, as_csv=is_csv(path)))
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
    columns, lines = read_records(path, (_DELAYS,))
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


def _state(line: Record) -> Availability:
    text = str(line.values["state"]).strip()
    if text not in {str(state) for state in Availability}:
        line.fail(f"unknown state '{text}'", suggestion(text, [str(state) for state in Availability]))
    return Availability(text)


def _add_change(line: Record, changes: list[tuple[Ns, Availability]]) -> None:
    t, state = line.ns("t_s"), _state(line)
    _in_order(line, changes, t)
    changes.append((t, state))


def _add_outage(line: Record, changes: list[tuple[Ns, Availability]]) -> None:
    start, duration = line.ns("start_s"), line.ns("duration_s")
    if not changes:
        changes.append((0, Availability.AVL_TRAIN))
    _in_order(line, changes, start, "an outage begins before the last one of this client has ended")
    changes += [(start, Availability.UN_AVL), (start + duration, Availability.AVL_TRAIN)]


def _in_order(
    line: Record, changes: list[tuple[Ns, Availability]], t: Ns, message: str = "times of a client must not decrease"
) -> None:
    if changes and t < changes[-1][0]:
        last = _seconds(changes[-1][0])
        line.fail(f"{message}: {_seconds(t)} s follows {last} s", "sort the file by client and time")


def _changes(trace: Trace, client: ClientId, until: Ns) -> Iterator[tuple[Ns, Availability]]:
    t: Ns | None = 0
    state = trace.state(client, 0)
    while t is not None and t < until:
        state = trace.state(client, t)
        yield t, state
        t = trace.next_change(client, t)
    yield until, state


def _outages(trace: Trace, client: ClientId, until: Ns) -> Iterator[tuple[Ns, Ns]]:
    begun: Ns | None = None
    for t, state in _changes(trace, client, until):
        if state is Availability.AVL_EVAL:
            raise ConfigError(
                f"client {client} can only evaluate at {_seconds(t)} s; a list of outages knows two states",
                hint="write changes, or bring a trace of two states",
            )
        if begun is not None and (state is Availability.AVL_TRAIN or t == until):
            yield begun, t - begun
            begun = None
        if state is Availability.UN_AVL and t < until:
            begun = t
    yield until, 0


def _outage_line(client: ClientId, start: Ns, duration: Ns, *, as_csv: bool) -> str:
    if as_csv:
        return f"{client},{_seconds(start)},{_seconds(duration)}\n"
    return f'{{"client":{client},"start_s":{_seconds(start)},"duration_s":{_seconds(duration)}}}\n'


def _csv_line(client: ClientId, t: Ns, state: Availability) -> str:
    return f"{client},{_seconds(t)},{state}\n"


def _json_line(client: ClientId, t: Ns, state: Availability) -> str:
    return f'{{"client":{client},"t_s":{_seconds(t)},"state":"{state}"}}\n'


def _seconds(ns: Ns) -> str:
    """Exact seconds as text, without trailing zeros."""
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)
