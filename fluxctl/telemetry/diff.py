"""Where two event files part: the first event in which two runs differ, with what surrounds it on both sides.

It compares what the canonical hash covers, in the same spelling: two files without a difference have one hash. Both are
read in step and only the context is kept, so files may be of any size.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from fluxctl.telemetry.hashing import canonical_line
from fluxctl.telemetry.reader import Event, read_events, read_header
from fluxctl.types import JSON

CONTEXT: Final = 3
_MOST_PATHS: Final = 20  # differing fields that are named


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between two event files.

    Attributes:
        index: Number of the event, from 1; 0 is the header.
        before: The last events that both have, oldest first.
        left: The first file's event and what follows it; empty if it has ended.
        right: The same of the second file.
        paths: Dotted paths of the fields that differ, at most 20; empty if one file has ended.
    """

    index: int
    before: tuple[Event, ...]
    left: tuple[Event, ...]
    right: tuple[Event, ...]
    paths: tuple[str, ...]

    def to_json(self) -> dict[str, JSON]:
        """The difference as JSON; the names of the fields are public."""
        return {
            "index": self.index,
            "paths": list(self.paths),
            "before": plain_json(self.before),
            "left": plain_json(self.left),
            "right": plain_json(self.right),
        }


def plain_json(value: JSON) -> JSON:
    """JSON without the numbers that RFC 8259 has no word for; other writers' files can hold them, as in ``1e999``."""
    if isinstance(value, Mapping):
        return {str(name): plain_json(child) for name, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_json(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def first_difference(left: str | Path, right: str | Path, *, context: int = CONTEXT) -> Divergence | None:
    """Compare two event files.

    Args:
        left: ``events.jsonl`` of a run; a torn last line is left out.
        right: The same of another.
        context: Events to keep before the difference and after it.

    Returns:
        The first difference; None if the files say the same.

    Raises:
        NothingToDoError: If a file is absent or empty.
        ConfigError: If one does not begin with a header of a schema that this version reads.
    """
    before: deque[Event] = deque(maxlen=context)
    streams = (_comparable(left), _comparable(right))
    for index, (ours, theirs) in enumerate(zip_longest(*streams)):
        if ours is not None and theirs is not None and canonical_line(ours) == canonical_line(theirs):
            before.append(ours)
            continue
        heads = tuple(() if event is None else (event,) for event in (ours, theirs))
        tails = tuple(tuple(islice(stream, context)) for stream in streams)
        paths = () if ours is None or theirs is None else tuple(islice(differing_paths(ours, theirs), _MOST_PATHS))
        return Divergence(index, tuple(before), (*heads[0], *tails[0]), (*heads[1], *tails[1]), paths)
    return None


def differing_paths(left: object, right: object, path: str = "") -> Iterator[str]:
    """Dotted paths at which two values differ; a whole value counts where its kind or length does."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            here = f"{path}.{name}" if path else name
            if name in left and name in right:
                yield from differing_paths(left[name], right[name], here)
            else:
                yield here
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differing_paths(one, other, f"{path}[{number}]")
    elif canonical_line({"": left}) != canonical_line({"": right}):
        yield path


def _comparable(path: str | Path) -> Iterator[Event]:
    """The header without its identity, then the events without their wall part."""
    header = read_header(path)
    header.pop("identity", None)
    yield header
    for event in read_events(path):
        event.pop("wall", None)
        yield event
