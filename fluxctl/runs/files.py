"""Small files that other processes read while we write them, and large ones that we read while others write."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from fluxctl.types import JSON


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never a part."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_json(path: Path, data: JSON) -> None:
    """Replace a JSON file in one step.

    Raises:
        ValueError: If a number is not finite, which RFC 8259 has no word for.
    """
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is absent, damaged or holds something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def tail(path: Path, num_lines: int = 20, max_bytes: int = 8192) -> list[str]:
    """The last lines of a text file of any size, read from its end; empty if there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            text = file.read(max_bytes).decode("utf-8", errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    if size > max_bytes and lines:
        del lines[0]  # cut in the middle
    return [line for line in lines if line.strip()][-num_lines:]


class JsonLines:
    """Follows a growing JSON Lines file; each call returns what is new.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """Objects in the complete lines since the last call; damaged lines are left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        end = data.rfind(b"\n") + 1  # the rest is a line that is still being written
        self._offset += end
        objects = []
        for line in data[:end].splitlines():
            try:
                item = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(item, dict):
                objects.append(item)
        return objects
