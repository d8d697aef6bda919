"""Small files that other processes read while we write them, and large ones that we read while others write."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from fluxctl.types import JSON

LATEST: Final = "latest"


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


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV; a number is written so that it reads back the same, what is unknown (None) is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return text.getvalue()


def make_folder(folder: Path) -> None:
    """Make a folder, and make sure that files can be written there.

    Raises:
        OSError: If not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".probe-{secrets.token_hex(4)}"
    probe.touch(exist_ok=False)
    probe.unlink()


def point_latest(folder: Path, name: str) -> None:
    """Let the link ``latest`` in a folder name one of its entries; a folder that cannot have it is left as it is."""
    scratch = folder / f".{LATEST}-{secrets.token_hex(4)}"
    try:
        scratch.symlink_to(name, target_is_directory=True)
        os.replace(scratch, folder / LATEST)
    except OSError:  # no links on this file system, or a directory of that name
        scratch.unlink(missing_ok=True)


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
