"""The one writer of a run's event stream, ordered by (engine time, class, key, sequence number).

The engine emits events as it handles things; on the wall clock, and with lookahead, that is not the order of engine
time. The writer holds them back until the engine declares that nothing earlier can come, so that the file's order is
a function of the run and not of the threads. What exists only on the wall (progress, overruns) goes to ``wall.jsonl``
at once and unordered.

Not thread-safe: the aggregator's thread alone emits. Callers of :meth:`EventWriter.note` take turns by themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from fluxctl.errors import ConfigError, InvariantError
from fluxctl.telemetry.encode import encode, replace_nonfinite
from fluxctl.telemetry.events import HEADER, RESERVED, SCHEMA_VERSION, order_of
from fluxctl.types import Ns

EVENTS_FILE: Final = "events.jsonl"
WALL_FILE: Final = "wall.jsonl"
_NO_FIELDS: Final[Mapping[str, object]] = {}


def _encode_object(fields: Mapping[str, object]) -> str:
    """Encode an object; NaN and infinities become null and are named in its ``nonfinite`` list."""
    try:
        return encode(fields)
    except ValueError:
        copy, paths = replace_nonfinite(fields)
        assert isinstance(copy, dict)
        return encode({**copy, "nonfinite": paths})


class EventSink(Protocol):
    """Where the engine's events go; :class:`EventWriter`, or something that only counts."""

    def emit(
        self,
        t_ns: Ns,
        event: str,
        fields: Mapping[str, object],
        *,
        key: int = -1,
        wall: Mapping[str, object] | None = None,
    ) -> None:
        """Take an event."""
        ...

    def advance(self, watermark_ns: Ns) -> None:
        """Learn that no later event will precede ``watermark_ns``."""
        ...

    def note(self, event: str, fields: Mapping[str, object] = ...) -> None:
        """Take something that exists on the wall only."""
        ...


class EventWriter:
    """Writes ``events.jsonl`` and ``wall.jsonl`` of one run.

    Call :meth:`header` once, then :meth:`emit` in any order of engine time, :meth:`advance` whenever engine time is
    known to have passed, and :meth:`close` at the end; a ``with`` block closes.

    Args:
        folder: The run directory; must exist.

    Raises:
        ConfigError: If the folder already holds an event stream.
    """

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / EVENTS_FILE
        try:
            self._events = self._path.open("xb")
        except FileExistsError:
            raise ConfigError(
                "this run directory already holds events", hint="start in a new directory", where=str(self._path)
            ) from None
        self._notes = (Path(folder) / WALL_FILE).open("ab")
        self._pending: list[tuple[Ns, int, int, int, str]] = []
        self._num_emitted = 0
        self._watermark: Ns = 0
        self._has_header = False

    def header(self, identity: Mapping[str, object], **fields: object) -> None:
        """Write the first line.

        Args:
            identity: What names this run and no other (id, host, start); no part of the canonical hash.
            **fields: What else readers must know first; part of the hash.

        Raises:
            InvariantError: If a header was written before.
        """
        if self._has_header:
            raise InvariantError("an event stream has one header")
        line = {"event": HEADER, "schema_version": SCHEMA_VERSION, "identity": identity, **fields}
        self._events.write(_encode_object(line).encode() + b"\n")
        self._events.flush()
        self._has_header = True

    def emit(
        self,
        t_ns: Ns,
        event: str,
        fields: Mapping[str, object],
        *,
        key: int = -1,
        wall: Mapping[str, object] | None = None,
    ) -> None:
        """Take an event; it is encoded now and written by a later :meth:`advance` or :meth:`close`.

        Args:
            t_ns: Engine time of what happened; at or after the last watermark.
            event: A name of ``telemetry.events.EVENTS``.
            fields: What happened; numpy values are accepted.
            key: Orders events of one instant and class, normally the client id; -1 where there is none.
            wall: What was measured on the wall.

        Raises:
            InvariantError: If there is no header yet, the event is unknown, lies before the watermark, or names a
                reserved field.
        """
        if t_ns < self._watermark or not self._has_header or not RESERVED.isdisjoint(fields):
            raise InvariantError(self._complaint(t_ns, event, fields))
        try:
            order = order_of(event, fields)
        except KeyError:
            raise InvariantError(f"event '{event}' is not in the table of events") from None
        body = _encode_object(fields)
        start = f'{{"event":"{event}","t_ns":{t_ns}'
        middle = f",{body[1:-1]}" if fields else ""
        end = f',"wall":{_encode_object(wall)}}}' if wall else "}"
        self._num_emitted += 1
        self._pending.append((t_ns, order, key, self._num_emitted, f"{start}{middle}{end}"))

    def _complaint(self, t_ns: Ns, event: str, fields: Mapping[str, object]) -> str:
        if not self._has_header:
            return f"event '{event}' before the header"
        if t_ns < self._watermark:
            return f"event '{event}' at {t_ns} ns, but everything before {self._watermark} ns is already written"
        return f"event '{event}' names reserved fields: {sorted(RESERVED & fields.keys())}"

    def advance(self, watermark_ns: Ns) -> None:
        """Write and flush everything before ``watermark_ns``; a lower watermark than the last one changes nothing.

        Args:
            watermark_ns: Engine time that no later event will precede.
        """
        self._watermark = max(self._watermark, watermark_ns)
        self._pending.sort()
        self._write(bisect_left(self._pending, (self._watermark,)))

    def _write(self, count: int) -> None:
        if count:
            lines = "\n".join([entry[-1] for entry in self._pending[:count]])
            del self._pending[:count]
            self._events.write(f"{lines}\n".encode())
            self._events.flush()

    def note(self, event: str, fields: Mapping[str, object] = _NO_FIELDS) -> None:
        """Append one line to ``wall.jsonl`` and flush it.

        Args:
            event: What happened, for example ``progress`` or ``overrun``.
            fields: Anything measured on the wall.
        """
        self._notes.write(_encode_object({"event": event, **fields}).encode() + b"\n")
        self._notes.flush()

    def close(self) -> None:
        """Write what is left and close both files; closing twice is harmless."""
        if self._events.closed:
            return
        try:
            self._pending.sort()
            self._write(len(self._pending))
        finally:
            self._events.close()
            self._notes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
