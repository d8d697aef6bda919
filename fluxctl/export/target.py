"""Where an export goes, and what is said when the library for a format is not installed."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fluxctl.errors import ConfigError, os_reason


def need(module: str, extra: str, what: str) -> ModuleType:
    """Import an optional library.

    Raises:
        ConfigError: If it is not installed; the hint names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{what} needs {module.partition('.')[0]}, which is not installed ({error})",
            hint=f"pip install 'fluxctl[{extra}]'",
            where=f"--to {extra}",
        ) from None


@contextlib.contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears whole or not at all: what the body writes replaces an earlier export of the same name.

    Raises:
        ConfigError: If it cannot be written, or something else is in its place.
    """
    if folder.exists() and not _is_export(folder):
        raise ConfigError(
            "the folder exists and holds something that is no export of ours",
            where=str(folder),
            hint="choose another with --out",
        )
    scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        scratch.mkdir(parents=True)
        yield scratch
        (scratch / MARK).write_text("Written by fluxctl export; the next export replaces this folder.\n")
        if folder.exists():
            shutil.rmtree(folder)
        scratch.rename(folder)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot write the export: {reason}", where=str(folder)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


MARK = ".fluxctl-export"


def _is_export(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and ((folder / MARK).is_file() or not any(folder.iterdir()))
