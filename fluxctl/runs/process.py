"""Supervising engine processes: start, follow, limit, end, and never leave one behind.

Each engine runs in a session of its own, so a Ctrl-C at the terminal reaches only the supervisor, which then asks the
engine to stop (stop file), and insists by degrees: TERM and then KILL, both to the whole process group. Its standard
input is a pipe that only the supervisor holds: when the supervisor dies, the engine reads end-of-file and can end.

The supervisor takes the command as an argument, so tests put a small script in the engine's place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fluxctl import wall
from fluxctl.errors import ExitCode
from fluxctl.runs.files import JsonLines, write_text
from fluxctl.runs.index import crash
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.records import ProcessMark, VerdictRecord
from fluxctl.types import Verdict

SUPERVISED: Final = "FLUXCTL_SUPERVISED"  # set for an engine whose standard input ends with its supervisor


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


def output_of(command: Sequence[str], timeout_s: float = 5.0) -> str | None:
    """What a short command prints; None if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout_s, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


class EngineProcess:
    """One engine process and the truth about its end.

    Args:
        folder: The run directory.
        command: What to start; its output goes to ``run.log``.
        max_wall_s: Wall seconds after which the run is ended as WALL_CEILING.
        grace: How long to wait between the degrees of ending it.
    """

    def __init__(
        self, folder: RunFolder, command: Sequence[str], *, max_wall_s: float, grace: Grace | None = None
    ) -> None:
        self.folder = folder
        self._grace = grace or Grace()
        self._max_wall_s = max_wall_s
        self._lines = JsonLines(folder.wall_events)
        self._ending: Verdict | None = None  # why we asked it to end
        self._reason = ""
        self._next_degree_s = 0.0
        self._degrees: list[Callable[[], None]] = []
        with folder.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", SUPERVISED: "1"},
            )
        self._started_s = wall.monotonic_s()
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
        if self._ending is None and self.wall_s > self._max_wall_s:
            self.ask_to_stop(Verdict.WALL_CEILING, f"wall ceiling of {self._max_wall_s:g} s reached")
        if self._degrees and wall.monotonic_s() >= self._next_degree_s:
            self._degrees.pop(0)()
            self._next_degree_s = wall.monotonic_s() + self._grace.term_s
        return None

    def ask_to_stop(self, verdict: Verdict, reason: str) -> None:
        """Ask for a clean end; insist by degrees if nothing happens."""
        if self._ending is not None:
            return
        self._ending, self._reason = verdict, reason
        self._degrees = [lambda: self._signal(signal.SIGTERM), lambda: self._signal(signal.SIGKILL)]
        self._next_degree_s = wall.monotonic_s() + self._grace.stop_s
        with contextlib.suppress(OSError):  # a full disk must not keep us from the other degrees
            write_text(self.folder.stop, reason + "\n")

    def kill(self, reason: str) -> None:
        """End the whole process group now."""
        if self._ending is None:
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
            self.folder.write_verdict(verdict)
        elif verdict.verdict is Verdict.INTERRUPTED and self._ending is Verdict.WALL_CEILING:
            # the engine only knows that it was asked; a run that ended by itself in that moment keeps its own verdict
            verdict = replace(self._ended_by_us(Verdict.WALL_CEILING), summary=verdict.summary)
            self.folder.write_verdict(verdict)
        self.folder.mark_ended()
        return verdict

    def _without_verdict(self, code: int) -> VerdictRecord:
        if self._ending is not None:
            return self._ended_by_us(self._ending)
        if code < 0:
            hint = ": the system may be out of memory" if -code == signal.SIGKILL else ""
            return crash(self.folder, f"the engine was killed by signal {_signal_name(-code)}{hint}")
        return crash(self.folder, f"the engine ended with exit code {code} and left no verdict")

    def _ended_by_us(self, verdict: Verdict) -> VerdictRecord:
        if verdict is Verdict.WALL_CEILING:
            hint = "raise limits.max_wall_s, or lower the budget with --max-bins or --max-runtime"
            error = {"code": "run_broke", "message": self._reason, "hint": hint, "where": None, "detail": None}
            return VerdictRecord(verdict, self._reason, int(ExitCode.RUN_BROKE), error)
        return VerdictRecord(verdict, self._reason, int(ExitCode.INTERRUPTED))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
