"""SHA-256 of files, remembered for files that have not changed.

Hashing 90 MB of weights costs a few tenths of a second, which a warm start has no reason to spend again. A verified
hash is kept in a small JSON file named after the path; size and modification time must still match for it to count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path


def file_sha256(path: Path, memo: Path | None = None) -> str:
    """Hash a file.

    Args:
        path: The file.
        memo: Folder that remembers hashes; None = always read the file. A folder that cannot be written only costs
            time.

    Returns:
        SHA-256 in hex.
    """
    stat = path.stat()
    place = str(path.resolve())
    stamp: dict[str, str | int] = {"path": place, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    note = memo / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json" if memo is not None else None
    known = _remembered(note, stamp) if note is not None else None
    if known is not None:
        return known
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if note is not None:
        _remember(note, {**stamp, "sha256": found})
    return found


def _remembered(note: Path, stamp: dict[str, str | int]) -> str | None:
    try:
        record = json.loads(note.read_text(encoding="utf-8"))
        sha256 = record.pop("sha256")
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return sha256 if record == stamp and isinstance(sha256, str) else None


def _remember(note: Path, record: dict[str, str | int]) -> None:
    draft = note.with_name(f".{note.name}.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # without a note the file is hashed again next time
        note.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(record), encoding="utf-8")
        os.replace(draft, note)
