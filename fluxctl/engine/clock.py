"""The clock: the only object of the engine that knows whether time is simulated.

Engine threads are *participants*. They block only through their clock, by sleeping until an engine time or by waiting
on a mailbox, so that either clock can decide who runs next. :class:`~fluxctl.engine.virtual_clock.VirtualClock` jumps
to the earliest due entry when everybody is blocked; :class:`~fluxctl.engine.wall_clock.WallClock` lets real time
pass. Nothing else differs between a real run and its simulation.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from fluxctl import wall
from fluxctl.engine.channel import Mailbox
from fluxctl.errors import RunBrokeError
from fluxctl.types import Ns

M = TypeVar("M")
JOIN_TIMEOUT_S = 5.0
TICK_S = 0.2


class Rank(IntEnum):
    """Order of participants that are due at the same instant: trainers deliver before the aggregator looks."""

    TRAINER = 0
    AGGREGATOR = 1


class ClockStopped(BaseException):  # a signal like GeneratorExit, not an error
    """Unwinds a participant after :meth:`Clock.stop`; not an ``Exception``, so no policy can swallow it."""


class DeadlockError(RunBrokeError):
    """Everybody waits and nothing is due."""

    code = "deadlock"


class Participant:
    """A thread that the clock schedules.

    Args:
        name: For reports, for example ``trainer-3``.
        rank: Order among participants due at the same instant.
        key: Order within a rank.
    """

    __slots__ = ("condition", "finished", "gate", "key", "name", "need", "rank", "thread", "token", "waits_for")

    def __init__(self, name: str, rank: Rank, key: int) -> None:
        self.name = name
        self.rank = rank
        self.key = key
        self.gate = threading.Lock()
        self.gate.acquire()
        self.token = 0
        self.waits_for: Callable[[], str] = lambda: "its first turn"  # asked for a report of a deadlock only
        self.need = 0
        self.finished = False
        self.condition: threading.Condition | None = None
        self.thread: threading.Thread | None = None


class Clock(ABC):
    """What the engine may ask of time. All times are engine nanoseconds from 0."""

    def __init__(self) -> None:
        self._participants: list[Participant] = []
        self._local = threading.local()
        self._stopped = False
        self._failure: BaseException | None = None
        self._failure_lock = threading.Lock()

    @abstractmethod
    def now(self) -> Ns:
        """Engine time; never decreases."""

    @property
    def factor(self) -> float:
        """Engine seconds that one wall second of compute stands for."""
        return 1.0

    @property
    def waits_for_real(self) -> bool:
        """Whether participants wait in real time, so that work can be done early at no cost."""
        return False

    @abstractmethod
    def sleep_until(self, t: Ns) -> None:
        """Block the calling participant until ``t``; returns at once when ``t`` has passed."""

    @abstractmethod
    def wait(self, mailbox: Mailbox[M], deadline: Ns | None = None, *, at_least: int = 1) -> bool:
        """Block until the mailbox holds ``at_least`` messages or an urgent one, or the deadline has come.

        Returns:
            Whether the mailbox is ready; False means that the deadline came first.
        """

    @abstractmethod
    def put(self, mailbox: Mailbox[M], message: M, *, urgent: bool = False) -> None:
        """Deliver a message now, waking its reader if that is what the reader waits for."""

    @abstractmethod
    def nudge(self, mailbox: Mailbox[M], message: M) -> None:
        """From any thread: tell a reader early what it would find out by itself at its next turn.

        A wall clock delivers and wakes the reader. A virtual clock does nothing, since no reader of it waits in real
        time.
        """

    @abstractmethod
    def stop(self) -> None:
        """End all participants: everyone who blocks, or is blocked, gets :class:`ClockStopped`. Idempotent."""

    @abstractmethod
    def _start(self) -> None:
        """Let the first participant run."""

    @abstractmethod
    def _block_first(self, me: Participant) -> None:
        """Block a new participant until its first turn."""

    @abstractmethod
    def _leave(self, me: Participant) -> None:
        """A participant has finished."""

    def spawn(self, body: Callable[[], None], name: str, *, rank: Rank = Rank.TRAINER, key: int = 0) -> None:
        """Add a participant that runs ``body`` on a thread of its own."""
        me = Participant(name, rank, key)
        me.thread = threading.Thread(target=self._main, args=(me, body), name=name, daemon=True)
        self._enter(me)
        me.thread.start()

    def run(self, on_tick: Callable[[], None] = lambda: None) -> None:
        """Start, and return when every participant has finished.

        Args:
            on_tick: Called in this thread about five times a second of real time.

        Raises:
            BaseException: The first exception that left a participant's body, or :class:`DeadlockError`.
        """
        self._start()
        try:
            for me in self._participants:
                while me.thread is not None and me.thread.is_alive() and not self._stopped:
                    me.thread.join(TICK_S)  # short, so that the main thread keeps handling signals
                    on_tick()
        except BaseException:  # from on_tick, or a second interrupt
            self.stop()
            raise
        end_s = wall.monotonic_s() + JOIN_TIMEOUT_S  # for all of them together
        for me in self._participants:
            if me.thread is not None:
                me.thread.join(max(0.0, end_s - wall.monotonic_s()))
        if self._failure is not None:
            raise self._failure

    def unfinished(self) -> list[str]:
        """Names of participants whose thread is still alive."""
        return [me.name for me in self._participants if me.thread is not None and me.thread.is_alive()]

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._stopped

    def _enter(self, me: Participant) -> None:
        self._participants.append(me)

    def _me(self) -> Participant:
        me: Any = getattr(self._local, "me", None)
        if me is None:
            raise RuntimeError("only a participant of this clock may block on it")
        assert isinstance(me, Participant)
        return me

    def _main(self, me: Participant, body: Callable[[], None]) -> None:
        self._local.me = me
        try:
            self._block_first(me)
            body()
        except ClockStopped:
            pass
        except BaseException as error:  # handed to run(), which raises it in the main thread
            self._fail(error)
        finally:
            me.finished = True
            self._leave(me)

    def _fail(self, error: BaseException) -> None:
        with self._failure_lock:
            if self._failure is None:
                self._failure = error
        self.stop()
