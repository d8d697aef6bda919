"""What ``run.json`` and ``verdict.json`` say, as values.

Readers are lenient (a field that a newer or older version wrote is ignored or empty), writers are exact.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeVar

import psutil

from fluxctl.errors import ExitCode
from fluxctl.types import JSON, Mode, Verdict

SCHEMA_VERSION: Final = 1
R = TypeVar("R")

# What `launch` answers for a run that ended so; an interrupted run answers with the signal.
EXIT_CODES: Final[Mapping[Verdict, ExitCode]] = {
    Verdict.COMPLETED: ExitCode.OK,
    Verdict.CONVERGED: ExitCode.OK,
    Verdict.DID_NOT_CONVERGE: ExitCode.OK,
    Verdict.STALLED: ExitCode.OK,
    Verdict.DIVERGED: ExitCode.ANSWER_IS_NO,
    Verdict.STARVED: ExitCode.ANSWER_IS_NO,
    Verdict.BLOCKED: ExitCode.CHANGE_REQUEST,
    Verdict.WALL_CEILING: ExitCode.RUN_BROKE,
    Verdict.TIMEOUT: ExitCode.RUN_BROKE,
    Verdict.CRASHED: ExitCode.RUN_BROKE,
    Verdict.NO_ROUNDS: ExitCode.RUN_BROKE,
    Verdict.INTERRUPTED: ExitCode.INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that can be told from a later one with the same id.

    Args:
        host: Name of the machine; elsewhere nobody can say whether the process lives.
        pid: Process id.
        started: Start of the process in seconds since 1970, as the system reports it.
    """

    host: str
    pid: int
    started: float

    @classmethod
    def of(cls, pid: int | None = None) -> ProcessMark:
        """The mark of a live process, by default this one."""
        number = os.getpid() if pid is None else pid
        try:
            started = float(psutil.Process(number).create_time())
        except psutil.Error:
            started = 0.0  # gone already
        return cls(socket.gethostname(), number, started)

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host == socket.gethostname()

    def is_gone(self) -> bool:
        """Whether the process is known to have ended; False for a process on another machine."""
        if not self.is_here:
            return False
        try:
            process = psutil.Process(self.pid)
            # start times are derived from the boot time and may wobble when the clock is set
            return abs(float(process.create_time()) - self.started) > 2.0 or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


@dataclass(frozen=True)
class RunRecord:
    """``run.json``: who a run is.

    Args:
        pair: Shared by the real and the sim run of one request; None for a run that is alone.
        group: Shared by all runs of one launch.
        status: ``created``, ``running`` or ``ended``.
        process: The process that answers for the run: the launcher until the engine has started.
        supervisor: The process that made the run and looks after it; None in records of older versions.
    """

    id: str
    run_set: str
    baseline: str
    mode: Mode
    seed: int
    created: str
    variant: str = ""
    pair: str | None = None
    group: str | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    status: str = "created"
    process: ProcessMark | None = None
    supervisor: ProcessMark | None = None
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, JSON]:
        """The record as JSON."""
        return {**asdict(self), "fingerprints": dict(self.fingerprints)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """Read a record.

        Raises:
            ValueError: If something is missing or wrong.
        """
        known = _known(cls, data)
        try:
            marks = {name: _mark(known.get(name)) for name in ("process", "supervisor")}
            datetime.fromisoformat(str(known["created"]))
            return cls(**{**known, "mode": Mode(known["mode"]), "seed": int(known["seed"]), **marks})
        except (TypeError, KeyError) as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True)
class VerdictRecord:
    """``verdict.json``: how a run ended.

    Args:
        verdict: How it ended.
        reason: Why, one sentence.
        exit_code: What the engine's process ended with.
        error: Of a run that broke: ``code``, ``message``, ``hint``, ``where``, ``detail`` (traceback, log's tail).
        summary: Counts and results: ``bins``, ``cycles``, ``best_accuracy``, ``engine_s`` and the like.
    """

    verdict: Verdict
    reason: str = ""
    exit_code: int = 0
    error: Mapping[str, Any] | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, JSON]:
        """The record as JSON."""
        return {
            "schema_version": self.schema_version,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "error": None if self.error is None else dict(self.error),
            "summary": dict(self.summary),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VerdictRecord:
        """Read a record.

        Raises:
            ValueError: If it names no known verdict.
        """
        known = _known(cls, data)
        error, summary = known.get("error"), known.get("summary")
        code = known.get("exit_code")
        return cls(
            verdict=Verdict(str(known.get("verdict"))),
            reason=str(known.get("reason") or ""),
            exit_code=code if isinstance(code, int) else 0,
            error=error if isinstance(error, dict) else None,
            summary=summary if isinstance(summary, dict) else {},
        )

    @property
    def launch_code(self) -> int:
        """What ``launch`` answers for this run: a missed target is a finding, an error keeps its own code."""
        by_verdict = EXIT_CODES[self.verdict]
        return self.exit_code if self.error is not None and self.exit_code > 1 else int(by_verdict)


def _mark(data: object) -> ProcessMark | None:
    return ProcessMark(**_known(ProcessMark, data)) if isinstance(data, dict) else None


def _known(kind: type[R], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]  # callers pass data classes
    return {name: value for name, value in data.items() if name in names}
