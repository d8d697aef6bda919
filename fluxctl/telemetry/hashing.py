"""The canonical hash of a run: equal when two runs decided and measured the same, wherever and whenever they ran.

It covers every event in file order, without its ``wall`` part, and the header without its ``identity``. Lines are
parsed and written again with sorted keys, so white space and the order of keys do not count; the spelling of every
number does.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fluxctl.telemetry.reader import Event, read_events, read_header


def canonical_hash(path: str | Path) -> str:
    """Hash an event file.

    Args:
        path: ``events.jsonl`` of a run; a torn last line is left out.

    Returns:
        64 hexadecimal digits (sha256).

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    digest = hashlib.sha256()
    header = read_header(path)
    header.pop("identity", None)
    digest.update(canonical_line(header))
    for event in read_events(path):
        event.pop("wall", None)
        digest.update(canonical_line(event))
    return digest.hexdigest()


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def canonical_line(event: Event) -> bytes:
    """An event as it is hashed; equal for events that say the same."""
    return f"{_encode(event)}\n".encode()
