"""Wall time: participants run concurrently and really sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from fluxctl import wall
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock, ClockStopped, Participant
from fluxctl.types import NS_PER_S, Ns

M = TypeVar("M")


class WallClock(Clock):
    """The clock of real runs.

    Args:
        factor: Engine seconds per wall second.
        monotonic_ns: Source of real time; replaced in tests.
    """

    def __init__(self, factor: float = 1.0, monotonic_ns: Callable[[], Ns] = wall.monotonic_ns) -> None:
        super().__init__()
        self._factor = factor
        self._monotonic_ns = monotonic_ns
        self._origin: Ns | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._readers: dict[int, Participant] = {}

    def now(self) -> Ns:
        """Engine time since :meth:`run` began; 0 before."""
        if self._origin is None:
            return 0
        return round((self._monotonic_ns() - self._origin) * self._factor)

    @property
    def factor(self) -> float:
        """Engine seconds per wall second."""
        return self._factor

    @property
    def waits_for_real(self) -> bool:
        """It does."""
        return True

    def sleep_until(self, t: Ns) -> None:
        """Sleep until ``t``."""
        me = self._me()
        with self._lock:
            self._block(me, t, lambda: False)

    def wait(self, mailbox: Mailbox[M], deadline: Ns | None = None, *, at_least: int = 1) -> bool:
        """Sleep until the mailbox is ready or the deadline is reached."""
        me = self._me()
        with self._lock:
            me.need = at_least
            self._readers[id(mailbox)] = me
            try:
                self._block(me, deadline, lambda: mailbox.ready(at_least))
            finally:
                del self._readers[id(mailbox)]
            return mailbox.ready(at_least)

    def put(self, mailbox: Mailbox[M], message: M, *, urgent: bool = False) -> None:
        """Deliver now and wake the reader."""
        with self._lock:
            mailbox.append(message, urgent=urgent)
            reader = self._readers.get(id(mailbox))
            if reader is not None and mailbox.ready(reader.need) and reader.condition is not None:
                reader.condition.notify()

    def nudge(self, mailbox: Mailbox[M], message: M) -> None:
        """Deliver now; as :meth:`put`, from any thread."""
        self.put(mailbox, message, urgent=True)

    def stop(self) -> None:
        """Wake everybody to unwind."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            for other in self._participants:
                if other.condition is not None:
                    other.condition.notify_all()
        self._started.set()

    def _start(self) -> None:
        self._origin = self._monotonic_ns()
        self._started.set()

    def _enter(self, me: Participant) -> None:
        me.condition = threading.Condition(self._lock)
        super()._enter(me)

    def _block_first(self, me: Participant) -> None:  # noqa: ARG002 - all participants start together
        self._started.wait()
        if self._stopped:
            raise ClockStopped

    def _leave(self, me: Participant) -> None:
        """Nobody depends on a finished participant."""

    def _block(self, me: Participant, until: Ns | None, ready: Callable[[], bool]) -> None:
        """Wait, with the lock held, until ``ready()`` or ``until``; spurious wake-ups are re-checked."""
        assert me.condition is not None
        while not self._stopped and not ready():
            if until is None:
                me.condition.wait()
                continue
            remaining_ns = until - self.now()
            if remaining_ns <= 0:
                return
            me.condition.wait(remaining_ns / self._factor / NS_PER_S)
        if self._stopped:
            raise ClockStopped
