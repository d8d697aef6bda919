"""Engines that outlived their supervisor: found by process id and start time, and ended if the user says so.

An engine whose supervisor dies notices within seconds and ends by itself. One that cannot (it hangs, or was stopped)
would go on taking cores from whatever is started next, unseen. Runs whose supervisor lives, here or on another machine,
are nobody's business but that supervisor's.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxctl import wall
from fluxctl.errors import FluxError
from fluxctl.runs.index import read_info
from fluxctl.runs.layout import RunFolder, run_folders
from fluxctl.runs.process import Grace
from fluxctl.runs.records import ProcessMark
from fluxctl.types import Verdict

NOTICE_S: Final = 6.0  # an engine that works notices within 5 s that its supervisor is gone
_POLL_S: Final = 0.1


class StraysError(FluxError):
    """Engines of an earlier launch still work in the runs folder."""

    code = "strays"

    def __init__(self, strays: Sequence[Stray], folder: Path) -> None:
        told = ", ".join(f"{stray.folder.id} (process {stray.process.pid})" for stray in strays[:5])
        more = f" and {len(strays) - 5} more" if len(strays) > 5 else ""
        what = "an engine" if len(strays) == 1 else f"{len(strays)} engines"
        super().__init__(
            f"{what} of an earlier launch still run, and nobody looks after them: {told}{more}",
            hint="--clean ends them first",
            where=str(folder),
        )


@dataclass(frozen=True, slots=True)
class Stray:
    """A live engine without a supervisor.

    Args:
        folder: Its run.
        process: The engine.
    """

    folder: RunFolder
    process: ProcessMark


def find_strays(folder: Path) -> list[Stray]:
    """The strays of this machine whose runs live in a folder."""
    return [stray for run in run_folders(folder) if (stray := _stray_of(run)) is not None]


def await_strays(folder: Path, limit_s: float | None = None) -> list[Stray]:
    """Give strays the time that a working engine needs to notice; those that are left."""
    deadline_s = wall.monotonic_s() + (NOTICE_S if limit_s is None else limit_s)
    while (strays := find_strays(folder)) and wall.monotonic_s() < deadline_s:
        wall.pause(_POLL_S)
    return strays


def end_strays(strays: Sequence[Stray], grace: Grace | None = None) -> None:
    """End engines with their process groups: TERM, and KILL for those that are left after the grace."""
    patience = grace or Grace()
    for number, wait_s in ((signal.SIGTERM, patience.term_s), (signal.SIGKILL, patience.term_s)):
        for stray in strays:
            if not stray.process.is_gone():
                _signal(stray.process.pid, number)
        deadline_s = wall.monotonic_s() + wait_s
        while any(not stray.process.is_gone() for stray in strays) and wall.monotonic_s() < deadline_s:
            wall.pause(_POLL_S)


def settle(folder: Path) -> list[str]:
    """Write down how the runs ended whose process is gone; ids of those that are found to have CRASHED just now."""
    crashed = []
    for run in run_folders(folder):
        if run.read_verdict() is not None:
            continue
        info = read_info(run)
        if info is not None and info.verdict is not None and info.verdict.verdict is Verdict.CRASHED:
            crashed.append(run.id)
    return crashed


def _stray_of(run: RunFolder) -> Stray | None:
    record = run.read_run()
    if record is None or record.status != "running" or record.process is None or record.supervisor is None:
        return None
    is_stray = record.process.is_here and not record.process.is_gone() and record.supervisor.is_gone()
    return Stray(run, record.process) if is_stray else None


def _signal(pid: int, number: signal.Signals) -> None:
    """To the process group if the engine leads one, as those of ``launch`` do; else to the process alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
