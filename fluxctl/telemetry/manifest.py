"""Which fields an event file really has, how often, and which of the promised ones it lacks.

The vocabulary in :mod:`fluxctl.telemetry.events` says what every event must carry; a file may come from another
version, another writer or a crashed run. This is the one place that answers from the file alone, in one streaming pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from fluxctl.telemetry.events import EVENTS, RESERVED
from fluxctl.telemetry.reader import MAX_LINE_BYTES, Event, read_header
from fluxctl.types import JSON

_KINDS: Final = {bool: "bool", int: "int", float: "float", str: "text", list: "list", dict: "object"}
_ALWAYS: Final = ("event", "t_ns")
_DEEPEST: Final = 2  # objects within objects that are opened: wall.versions.torch


@dataclass(frozen=True, slots=True)
class FieldUse:
    """A field of one kind of event.

    Attributes:
        event: The kind.
        path: Where it is in the event: ``wall.compute_s``.
        kinds: Kinds of values that occur; empty if it is always null or absent.
        num_present: Events that carry it with a value other than null.
        num_null: Events that carry it as null.
        num_events: Events of this kind.
        is_promised: Whether the vocabulary asks for it.
    """

    event: str
    path: str
    kinds: tuple[str, ...]
    num_present: int
    num_null: int
    num_events: int
    is_promised: bool

    @property
    def density(self) -> float:
        """Share of the events that carry a value."""
        return self.num_present / self.num_events if self.num_events else 0.0

    @property
    def is_missing(self) -> bool:
        """Whether it is promised and some events do not even carry it as null."""
        return self.is_promised and self.num_present + self.num_null < self.num_events

    def to_json(self) -> dict[str, JSON]:
        """The field as JSON."""
        return {
            "event": self.event,
            "path": self.path,
            "kinds": list(self.kinds),
            "num_present": self.num_present,
            "num_null": self.num_null,
            "num_events": self.num_events,
            "density": self.density,
            "is_promised": self.is_promised,
            "is_missing": self.is_missing,
        }


@dataclass(frozen=True)
class Manifest:
    """The fields of an event file.

    Attributes:
        mode: ``real`` or ``sim``, as its header says; empty if it does not.
        num_events: Events of each kind, in the vocabulary's order, then unknown kinds.
        fields: Fields of all kinds that occur, promised ones that are absent included.
        num_damaged: Lines that are no event.
    """

    mode: str
    num_events: Mapping[str, int]
    fields: tuple[FieldUse, ...]
    num_damaged: int


@dataclass
class _Tally:
    num_events: int = 0
    present: Counter[str] = field(default_factory=Counter)
    null: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        self.num_events += 1
        for path, value in _walk(event, "", _DEEPEST):
            if value is None:
                self.null[path] += 1
                continue
            self.present[path] += 1
            self.kinds.setdefault(path, {})[_KINDS.get(type(value), "text")] = None


def read_manifest(path: str | Path) -> Manifest:
    """Count the fields of an event file.

    Args:
        path: ``events.jsonl`` of a run; damaged lines are counted and left out.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    header = read_header(path)
    tallies: dict[str, _Tally] = {}
    num_damaged = 0
    with Path(path).open("rb") as file:
        file.readline(MAX_LINE_BYTES)
        for raw in iter(lambda: file.readline(MAX_LINE_BYTES), b""):
            if not raw.strip():
                continue
            event = _decode(raw)
            if event is None:
                num_damaged += 1
                continue
            tallies.setdefault(str(event.get("event", "")), _Tally()).add(event)
    ordered = {name: tallies[name] for name in (*(n for n in EVENTS if n in tallies), *sorted(tallies.keys() - EVENTS))}
    fields = tuple(use for name, tally in ordered.items() for use in _uses(name, tally))
    identity = header.get("identity")
    mode = identity.get("mode") if isinstance(identity, dict) else None
    return Manifest(str(mode or ""), {name: tally.num_events for name, tally in ordered.items()}, fields, num_damaged)


def _decode(raw: bytes) -> Event | None:
    try:
        event = orjson.loads(raw)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _walk(value: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """Fields of an event with their paths; objects are opened, lists are values."""
    for name, child in value.items():
        if not prefix and name in _ALWAYS:
            continue
        path = f"{prefix}{name}"
        if isinstance(child, dict) and depth and (name in RESERVED or prefix):
            yield from _walk(child, f"{path}.", depth - 1)
        else:
            yield path, child


def _uses(name: str, tally: _Tally) -> Iterator[FieldUse]:
    spec = EVENTS.get(name)
    promised = () if spec is None else (*spec.fields, *(f"wall.{field}" for field in spec.wall))
    seen = [*tally.present, *(path for path in tally.null if path not in tally.present)]
    opened = {path.rpartition(".")[0] for path in seen}  # wall.versions stands for what is in it
    extra = sorted(path for path in seen if path not in promised)
    for path in (*promised, *extra):
        if path in opened:
            inner = max(tally.present[other] for other in seen if other.startswith(f"{path}."))
            yield FieldUse(name, path, ("object",), inner, 0, tally.num_events, True)
            continue
        yield FieldUse(
            name,
            path,
            tuple(tally.kinds.get(path, {})),
            tally.present[path],
            tally.null[path],
            tally.num_events,
            path in promised,
        )
