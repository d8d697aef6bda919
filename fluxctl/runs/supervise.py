"""Running a list of engine processes to their ends, while someone watches and may want to stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, Self

from fluxctl import wall
from fluxctl.config.model import Config
from fluxctl.errors import ExitCode, FluxError
from fluxctl.runs.process import EngineProcess
from fluxctl.runs.records import VerdictRecord
from fluxctl.types import Mode, Verdict

_POLL_S: Final = 0.05
_MIN_WALL_S: Final = 600.0


def wall_ceiling_s(config: Config) -> float:
    """Most wall seconds that a run may take, preparation included."""
    if config.limits.max_wall_s is not None:
        return config.limits.max_wall_s
    budget_s = config.runtime_budget_s() * (20.0 if config.engine.charge_compute == "measured" else 1.0)
    if config.mode is Mode.REAL:  # the engine's budget is itself a wall time; preparation comes on top
        return budget_s / config.engine.wall_factor + _MIN_WALL_S
    return max(_MIN_WALL_S, budget_s)


@dataclass
class Interrupts:
    """Counts the signals that ask to end, instead of letting them tear the program apart.

    A context manager; outside the main thread it does nothing.
    """

    count: int = 0
    last: int = 0
    _old: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> Self:
        with contextlib.suppress(ValueError):  # not the main thread
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that was asked to end."""
        return int(ExitCode.INTERRUPTED if self.last == signal.SIGINT else ExitCode.TERMINATED)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.count += 1
        self.last = number


class Watcher(Protocol):
    """Hears what happens to runs."""

    def started(self, process: EngineProcess) -> None:
        """A run has started."""
        ...

    def news(self, process: EngineProcess, lines: Sequence[dict[str, Any]]) -> None:
        """What a run wrote to ``wall.jsonl``; called at every turn, with or without lines."""
        ...

    def refused(self, error: FluxError) -> None:
        """A run could not be started; no further one will be."""
        ...

    def stopping(self) -> None:
        """The user has asked all runs to end."""
        ...

    def ended(self, process: EngineProcess, verdict: VerdictRecord) -> bool:
        """A run has ended; False means that no further run may start."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """A run that may begin.

    Args:
        begin: Makes its directory and starts its engine.
        is_alone: Whether nothing may run beside it, as for a run on the wall clock, whose times others would spoil.
    """

    begin: Callable[[], EngineProcess]
    is_alone: bool = False


class Supervision:
    """Runs engine processes, at most ``jobs`` at a time, until all have ended or the user asks to end.

    Args:
        starts: The runs, begun in this order; each is taken when there is room for it, so that a run directory is made
            only when its run begins.
        watcher: Hears what happens.
        interrupts: The first signal stops the runs cleanly, the second at once.
        jobs: Most runs at a time.
    """

    def __init__(self, starts: Iterable[Start], watcher: Watcher, interrupts: Interrupts, *, jobs: int = 1) -> None:
        self._starts = iter(starts)
        self._next = next(self._starts, None)
        self._is_alone = False  # whether what runs now wants to be alone
        self._watcher = watcher
        self._interrupts = interrupts
        self._jobs = jobs
        self._live: list[EngineProcess] = []
        self._may_start = True
        self._was_asked = False

    def run(self) -> None:
        """Return when every run has ended; leave no process behind, whatever happens."""
        try:
            while self._fill():
                self._pass_on_interrupts()
                self._turn()
                if self._live:
                    wall.pause(_POLL_S)
        finally:
            for process in self._live:  # only after a failure of our own
                process.kill("the supervisor failed")

    def _fill(self) -> bool:
        """Start what may start; whether anything is running."""
        while self._next is not None and self._has_room(self._next):
            self._is_alone = self._next.is_alone
            try:
                process = self._next.begin()
            except FluxError as error:  # what runs already shall end as it would
                self._may_start = False
                self._watcher.refused(error)
                break
            self._live.append(process)
            self._next = next(self._starts, None)
            self._watcher.started(process)
        return bool(self._live)

    def _has_room(self, start: Start) -> bool:
        if not self._may_start or self._interrupts.count:
            return False
        is_free = not (start.is_alone or self._is_alone) and len(self._live) < self._jobs
        return is_free or not self._live

    def _pass_on_interrupts(self) -> None:
        if self._interrupts.count and not self._was_asked:
            self._was_asked = True
            self._watcher.stopping()
            for process in self._live:
                process.ask_to_stop(Verdict.INTERRUPTED, "interrupted by the user")
        if self._interrupts.count > 1:
            for process in self._live:
                process.kill("interrupted twice by the user")

    def _turn(self) -> None:
        for process in tuple(self._live):
            verdict = process.poll()
            self._watcher.news(process, process.news())
            if verdict is not None:
                self._live.remove(process)
                self._may_start = self._watcher.ended(process, verdict) and self._may_start
