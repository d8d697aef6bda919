"""Arrays on disk that are expensive to compute: features of a frozen prefix, and the frozen weights of a suffix.

An entry is one safetensors file. It is written beside its final name and moved there in one step, so a reader sees
all of it or nothing, and two processes that compute the same entry do no harm. Each array carries a checksum, since a
disk that fills up or a copy that breaks off leaves a file that opens well. A damaged entry is removed and reported,
never used.

Arrays are mapped into memory, not read: verifying half a gigabyte takes a tenth of a second once it is in the page
cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from fluxctl.wall import utc_now

FORMAT_VERSION: Final = 1
CACHE_DIR_VARIABLE: Final = "FLUXCTL_CACHE_DIR"
_STALE_DRAFT_S: Final = 3600.0  # nobody writes one entry for an hour
_MAX_HEADER_BYTES: Final = 16 << 20
_DTYPES: Final[Mapping[str, str]] = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "BOOL": "|b1", "U8": "|u1"}

Array: TypeAlias = npt.NDArray[np.generic]
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class _DamagedError(Exception):
    """The file is not a complete entry of ours."""


@dataclass(frozen=True)
class CacheEntry:
    """What was saved.

    Args:
        arrays: By name, backed by the file, copy-on-write: changes to them stay in memory.
        meta: JSON object saved with them.
    """

    arrays: dict[str, Array]
    meta: dict[str, Json]


@dataclass(frozen=True)
class Lookup:
    """Answer of :meth:`FeatureStore.load`.

    Args:
        entry: The entry; None if it is absent or was damaged.
        problem: What was wrong with a damaged entry, for the user; None if nothing was.
    """

    entry: CacheEntry | None
    problem: str | None = None


def cache_folder() -> Path:
    """Where entries are kept: ``FLUXCTL_CACHE_DIR``, else ``fluxctl`` in the user's cache folder."""
    chosen = os.environ.get(CACHE_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    try:
        home = Path.home()
    except RuntimeError:  # an account without a home folder
        return Path(tempfile.gettempdir()) / "fluxctl"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fluxctl"
    variable, fallback = (
        ("LOCALAPPDATA", home / "AppData" / "Local") if sys.platform == "win32" else ("XDG_CACHE_HOME", home / ".cache")
    )
    return Path(os.environ.get(variable) or fallback) / "fluxctl"


def cache_key(**parts: str | int | float | tuple[int, ...]) -> str:
    """Hash everything that decides what an entry holds; 32 hex digits."""
    named = json.dumps({**parts, "format": FORMAT_VERSION}, sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class FeatureStore:
    """Entries in a folder, each under its key.

    Args:
        folder: Where they are; made when the first one is saved.
    """

    folder: Path

    def path(self, key: str) -> Path:
        """File of an entry, whether it exists or not."""
        return self.folder / f"{key}.safetensors"

    def load(self, key: str) -> Lookup:
        """Find an entry, verify it, and map its arrays into memory.

        A damaged entry is removed, so that it is reported once and then computed anew.
        """
        path = self.path(key)
        try:
            return Lookup(_read(path, key))
        except (FileNotFoundError, NotADirectoryError):
            return Lookup(None)
        except (_DamagedError, OSError) as error:
            with contextlib.suppress(OSError):  # what cannot be removed is replaced, or reported again next time
                path.unlink(missing_ok=True)
            return Lookup(None, f"the cache entry {path} cannot be used ({error}) and is computed anew")

    def save(self, key: str, arrays: Mapping[str, Array], meta: Mapping[str, Json]) -> str | None:
        """Write an entry in one step.

        Args:
            key: Its key.
            arrays: What to keep, by name.
            meta: JSON object to keep with them.

        Returns:
            None, or why it could not be written. A run goes on without its cache: that costs time and no result.
        """
        path = self.path(key)
        draft: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_stale_drafts()
            draft = self.folder / f".{key}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
            _write(draft, key, arrays, meta)
            os.replace(draft, path)  # not flushed to the disk first: after a power cut the checksums tell
        except OSError as error:
            if draft is not None:
                draft.unlink(missing_ok=True)
            return f"the cache folder {self.folder} cannot be written ({error.strerror or error}); going on without it"
        except BaseException:
            if draft is not None:
                draft.unlink(missing_ok=True)
            raise
        return None

    def _remove_stale_drafts(self) -> None:
        """Clean up after processes that were killed while they wrote."""
        now = utc_now().timestamp()
        for draft in self.folder.glob(".*.tmp"):
            try:
                if now - draft.stat().st_mtime > _STALE_DRAFT_S:
                    draft.unlink()
            except OSError:
                continue  # another process was faster


def _write(path: Path, key: str, arrays: Mapping[str, Array], meta: Mapping[str, Json]) -> None:
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    body = json.dumps(meta, sort_keys=True)
    checksums = {name: _crc32(array) for name, array in whole.items()}
    seal = {"key": key, "format": FORMAT_VERSION, "meta_crc32": zlib.crc32(body.encode()), "crc32": checksums}
    try:
        save_file(whole, path, metadata={"seal": json.dumps(seal), "meta": body})
    except OSError:
        raise
    except Exception as error:  # safetensors reports a full disk as its own error type
        raise OSError(str(error)) from error


def _read(path: Path, key: str) -> CacheEntry:
    """Map an entry and verify it.

    Raises:
        FileNotFoundError: If there is none.
        _DamagedError: If it is not complete and unchanged.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            if not 0 < header_size <= min(_MAX_HEADER_BYTES, size - 8):
                raise _DamagedError("truncated header")
            header = json.loads(file.read(header_size))
        notes = header.pop("__metadata__")
        seal, body = json.loads(notes["seal"]), notes["meta"]
        if seal["key"] != key or seal["format"] != FORMAT_VERSION or set(seal["crc32"]) != set(header):
            raise _DamagedError("it belongs to another key or format")
        if zlib.crc32(body.encode()) != seal["meta_crc32"]:
            raise _DamagedError("wrong checksum of its description")
        arrays = {}
        for name, spec in header.items():
            begin, end = (8 + header_size + offset for offset in spec["data_offsets"])
            if end > size:
                raise _DamagedError("truncated")
            arrays[name] = _map(path, begin, _DTYPES[spec["dtype"]], tuple(spec["shape"]))
            if _crc32(arrays[name]) != seal["crc32"][name]:
                raise _DamagedError(f"wrong checksum of '{name}'")
        return CacheEntry(arrays, json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedError(f"unreadable header: {error}") from error


def _crc32(array: Array) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def _map(path: Path, offset: int, dtype: str, shape: tuple[int, ...]) -> Array:
    if 0 in shape or not shape:  # an empty array has nothing to map, and memmap makes (1,) of ()
        return np.fromfile(path, dtype=dtype, count=math.prod(shape), offset=offset).reshape(shape)
    return np.memmap(path, dtype=dtype, mode="c", offset=offset, shape=shape)
