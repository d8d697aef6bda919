"""Supervising engine processes: start, follow, limit, end, and never leave one behind.

Each engine runs in a session of its own, so a Ctrl-C at the terminal reaches only the supervisor, which then asks the
engine to stop (stop file), and insists by degrees: TERM and then KILL, both to the whole process group. Its standard
input is a pipe that only the supervisor holds: when the supervisor dies, the engine reads end-of-file and can end.

The supervisor takes the command as an argument, so tests put a small script in the engine's place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import psutil

from fluxctl import wall
from fluxctl.errors import ExitCode
from fluxctl.runs.files import JsonLines
from fluxctl.runs.index import crash
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.records import ProcessMark, VerdictRecord
from fluxctl.runs.wishes import StopWish
from fluxctl.types import Verdict

_ROOM_BYTES: Final = 1 << 16  # a disk with less is full: not even a verdict fits
_START_S: Final = 120.0  # wall seconds until the first sign of life: imports from a slow disk
_GONE_S: Final = 5.0  # wall seconds in which a killed process is gone; one that waits for a dead disk never is
HANG_AFTER_S: Final = 600.0  # no step of any model that fits a CPU takes as long
SUPERVISED: Final = "FLUXCTL_SUPERVISED"  # set for an engine whose standard input ends with its supervisor


Child: TypeAlias = "subprocess.Popen[bytes]"


@dataclass(frozen=True, slots=True)
class Grace:
    """Wall seconds between the degrees of ending a run.

    Args:
        stop_s: From the stop file to TERM.
        term_s: From TERM to KILL.
    """

    stop_s: float = 10.0
    term_s: float = 5.0


def engine_command(folder: RunFolder) -> list[str]:
    """The command that runs the engine on a run directory; ``-P`` keeps the current folder out of the import path."""
    return [sys.executable, "-P", "-m", "fluxctl.engine", str(folder.path)]


def standby_command(runs_dir: Path) -> list[str]:
    """The command of an engine that is told later for which run of a folder it is."""
    return [sys.executable, "-P", "-m", "fluxctl.engine", "--standby", str(runs_dir)]


def spawn(command: Sequence[str], log: IO[bytes] | None) -> Child:
    """Start an engine process in a session of its own, with a pipe to it that only this process holds.

    Args:
        command: What to start.
        log: Takes what it prints; None = nobody does.

    Raises:
        OSError: If it cannot be started.
    """
    return subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL if log is None else log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", SUPERVISED: "1"},
    )


def output_of(command: Sequence[str], timeout_s: float = 5.0) -> str | None:
    """What a short command prints; None if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout_s, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def run_limited(command: Sequence[str], limit_s: float, log: Path) -> int | None:
    """Run a tool to its end, or end it with all that it started.

    Args:
        command: What to run; it gets no input.
        limit_s: Wall seconds that it may take.
        log: Receives what it prints.

    Returns:
        Its exit code; None if its time was up.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    code: int | None = None
    try:
        code = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # a browser's helpers may live in groups of their own, so look for them before their parent is gone
        started = _descendants(process.pid)
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for child in started:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(started, timeout=_GONE_S)
    return code


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


class EngineProcess:
    """One engine process and the truth about its end.

    Args:
        folder: The run directory.
        command: What to start; its output goes to ``run.log``.
        max_wall_s: Wall seconds after which the run is ended as WALL_CEILING.
        hang_after_s: Wall seconds without a sign of life after which it is ended as TIMEOUT. A sign is a change of
            ``wall.jsonl``: the engine touches it as long as its work goes on.
        grace: How long to wait between the degrees of ending it.
        hand_over: Gives the run to a process that waits for one, instead of the command; None = to none.
    """

    def __init__(
        self,
        folder: RunFolder,
        command: Sequence[str],
        *,
        max_wall_s: float,
        hang_after_s: float = HANG_AFTER_S,
        grace: Grace | None = None,
        hand_over: Callable[[RunFolder], Child | None] | None = None,
    ) -> None:
        self.folder = folder
        self._grace = grace or Grace()
        self._max_wall_s = max_wall_s
        self._hang_after_s = hang_after_s
        self._lines = JsonLines(folder.wall_events)
        self._ending: Verdict | None = None  # why we asked it to end
        self._reason = ""
        self._next_degree_s = 0.0
        self._degrees: list[Callable[[], None]] = []
        with folder.log.open("ab") as log:
            ready = None if hand_over is None else hand_over(folder)
            self._process = spawn(command, log) if ready is None else ready
        self._started_s = self._alive_s = wall.monotonic_s()
        self._sign: int | None = None
        with contextlib.suppress(OSError):  # the engine says so itself as well
            folder.mark_running(ProcessMark.of(self._process.pid))

    @property
    def wall_s(self) -> float:
        """Wall seconds since the start."""
        return wall.monotonic_s() - self._started_s

    def news(self) -> list[dict[str, Any]]:
        """What the engine has written to ``wall.jsonl`` since the last call."""
        return self._lines.new()

    def poll(self) -> VerdictRecord | None:
        """Move the run towards its end if it must end; its verdict once the process is gone."""
        code = self._process.poll()
        if code is not None:
            return self._conclude(code)
        if self._ending is None:
            self._enforce_limits()
        if self._degrees and wall.monotonic_s() >= self._next_degree_s:
            self._degrees.pop(0)()
            self._next_degree_s = wall.monotonic_s() + self._grace.term_s
        return None

    def _enforce_limits(self) -> None:
        sign = self._last_sign()
        if sign != self._sign:  # first: a supervisor that was itself suspended must not blame the engine
            self._sign, self._alive_s = sign, wall.monotonic_s()
        if self.wall_s > self._max_wall_s:
            self.ask_to_stop(Verdict.WALL_CEILING, f"wall ceiling of {self._max_wall_s:g} s reached")
            return
        limit_s = max(self._hang_after_s, _START_S) if sign is None else self._hang_after_s
        if wall.monotonic_s() - self._alive_s > limit_s:
            self.ask_to_stop(Verdict.TIMEOUT, f"the engine gave no sign of life for {limit_s:g} s")

    def _last_sign(self) -> int | None:
        try:
            return self.folder.wall_events.stat().st_mtime_ns
        except OSError:
            return None

    def ask_to_stop(self, verdict: Verdict, reason: str) -> None:
        """Ask for a clean end; insist by degrees if nothing happens."""
        if self._ending is not None:
            return
        self._ending, self._reason = verdict, reason
        self._degrees = [lambda: self._signal(signal.SIGTERM), lambda: self._signal(signal.SIGKILL)]
        self._next_degree_s = wall.monotonic_s() + self._grace.stop_s
        with contextlib.suppress(OSError):  # a full disk must not keep us from the other degrees
            StopWish(reason).write(self.folder)

    def kill(self, reason: str) -> None:
        """End the whole process group now."""
        if self._ending in (None, Verdict.INTERRUPTED):
            self._ending, self._reason = Verdict.INTERRUPTED, reason
        self._degrees = []
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _conclude(self, code: int) -> VerdictRecord:
        self._signal(signal.SIGKILL)  # what the engine may have left in its group
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        verdict = self.folder.read_verdict()
        if verdict is None:
            verdict = self._without_verdict(code)
            self._record(verdict)
        elif verdict.verdict is Verdict.INTERRUPTED and self._ending in _LIMITS:
            # the engine only knows that it was asked; a run that ended by itself in that moment keeps its own verdict
            verdict = replace(self._ended_by_us(self._ending), summary=verdict.summary)
            self._record(verdict)
        with contextlib.suppress(OSError):
            self.folder.mark_ended()
        return verdict

    def _record(self, verdict: VerdictRecord) -> None:
        """Write the verdict; on a full disk, or without the folder, only whoever waits for it hears it."""
        with contextlib.suppress(OSError):
            self.folder.write_verdict(verdict)

    def _without_verdict(self, code: int) -> VerdictRecord:
        if not self.folder.path.is_dir():
            return crash(self.folder, "the run's folder was removed while it ran")
        if self._ending is not None:
            return self._ended_by_us(self._ending)
        full = "; the disk is full" if _is_full(self.folder) else ""
        if code < 0:
            hint = ": the system may be out of memory" if -code == signal.SIGKILL else ""
            return crash(self.folder, f"the engine was killed by signal {_signal_name(-code)}{hint}{full}")
        return crash(self.folder, f"the engine ended with exit code {code} and left no verdict{full}")

    def _ended_by_us(self, verdict: Verdict) -> VerdictRecord:
        if verdict in _LIMITS:
            hint = _LIMITS[verdict]
            error = {"code": "run_broke", "message": self._reason, "hint": hint, "where": None, "detail": None}
            return VerdictRecord(verdict, self._reason, int(ExitCode.RUN_BROKE), error)
        return VerdictRecord(verdict, self._reason, int(ExitCode.INTERRUPTED))


# Verdicts that the supervisor alone can give, and what the user can do about them.
_LIMITS: Final = {
    Verdict.WALL_CEILING: "raise limits.max_wall_s, or lower the budget with --max-bins or --max-runtime",
    Verdict.TIMEOUT: "see run.log; if its steps really take that long, raise --hang-after",
}


def _is_full(folder: RunFolder) -> bool:
    try:
        return shutil.disk_usage(folder.path).free < _ROOM_BYTES
    except OSError:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
