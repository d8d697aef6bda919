"""Removing runs: whole directories that are certainly those of ended runs, and nothing else."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from fluxctl.errors import ConfigError, os_reason
from fluxctl.runs.files import LATEST, point_latest
from fluxctl.runs.index import RunInfo, list_runs


def check_removable(infos: Sequence[RunInfo], folder: Path) -> None:
    """Make sure that every run may be removed, before the first one is.

    Args:
        infos: The runs.
        folder: Where runs live.

    Raises:
        ConfigError: If one has not ended, or does not lie directly in the folder.
    """
    for info in infos:
        path = info.folder.path
        if path.is_symlink() or path.resolve().parent != folder.resolve():
            raise ConfigError(
                f"{info.record.id} does not lie in the runs folder",
                where=str(path),
                hint="name its runs folder with --runs-dir",
            )
        if info.verdict is None:
            raise ConfigError(
                f"{info.record.id} has not ended", where=str(path), hint="end it first, for example with Ctrl-C"
            )


def remove_runs(infos: Sequence[RunInfo], folder: Path) -> None:
    """Remove runs that :func:`check_removable` has passed, and let ``latest`` name the newest that is left.

    A directory is renamed before it is emptied, so that nobody ever finds half a run.

    Raises:
        ConfigError: If a directory cannot be removed.
    """
    try:
        for info in infos:
            doomed = folder / f".removed-{secrets.token_hex(4)}"
            info.folder.path.rename(doomed)
            shutil.rmtree(doomed)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot remove the run: {reason}", where=str(error.filename or folder)) from None
    finally:
        _repoint(folder)


def _repoint(folder: Path) -> None:
    left = list_runs(folder)
    link = folder / LATEST
    if left:
        point_latest(folder, left[-1].record.id)
    elif link.is_symlink():
        link.unlink()
