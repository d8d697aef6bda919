"""Virtual time: nobody sleeps; when everybody is blocked, the clock jumps to what is due next.

The clock passes a baton. Exactly one participant runs at any moment; when it blocks, it picks the earliest entry of
one heap, ordered by ``(time, rank, key, seq)``, moves the clock there and wakes that one thread. So the order of
execution is a function of the program, and the clock cannot move while anybody runs, which includes a trainer that
waits for its own compute: work that is due at t always finishes before the clock passes t, while compute that is due
later goes on in parallel (lookahead).
"""

from __future__ import annotations

import heapq
import os
from typing import TypeVar

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock, ClockStopped, DeadlockError, Participant
from fluxctl.types import Ns, s_from_ns

M = TypeVar("M")


class VirtualClock(Clock):
    """The clock of simulations.

    Args:
        core: Processor that all participants share. One of them runs at a time, and a hand-over on one core costs a
            quarter of one across cores; None leaves placement to the system.
    """

    def __init__(self, core: int | None = None) -> None:
        super().__init__()
        self._now: Ns = 0
        self._heap: list[tuple[Ns, int, int, int, int, Participant]] = []
        self._seq = 0
        self._readers: dict[int, Participant] = {}  # id(mailbox) -> its blocked reader
        self._core = core
        self.num_wakeups = 0

    def now(self) -> Ns:
        """Engine time; only ever moved by the participant that holds the baton."""
        return self._now

    def sleep_until(self, t: Ns) -> None:
        """Give the baton away until ``t``."""
        if t <= self._now:
            return
        me = self._me()
        me.waits_for = lambda: f"time {s_from_ns(t):.6f} s"
        self._schedule(t, me)
        self._pass_baton(me)

    def wait(self, mailbox: Mailbox[M], deadline: Ns | None = None, *, at_least: int = 1) -> bool:
        """Give the baton away until the mailbox is ready or the deadline is reached."""
        if mailbox.ready(at_least):
            return True
        if deadline is not None and deadline <= self._now:
            return False
        me = self._me()
        me.waits_for = lambda: f"{at_least} message(s) in mailbox '{mailbox.name}', which has {len(mailbox)}"
        me.need = at_least
        self._readers[id(mailbox)] = me
        if deadline is not None:
            self._schedule(deadline, me)
        self._pass_baton(me)
        self._readers.pop(id(mailbox), None)
        return mailbox.ready(at_least)

    def put(self, mailbox: Mailbox[M], message: M, *, urgent: bool = False) -> None:
        """Deliver at the current instant; the reader runs when the sender blocks."""
        mailbox.append(message, urgent=urgent)
        reader = self._readers.get(id(mailbox))
        if reader is not None and mailbox.ready(reader.need):
            del self._readers[id(mailbox)]
            self._schedule(self._now, reader)

    def nudge(self, mailbox: Mailbox[M], message: M) -> None:
        """Nothing to gain: the reader's deadline comes without real waiting."""

    def stop(self) -> None:
        """Wake everybody to unwind."""
        self._stopped = True
        for other in self._participants:
            _wake(other)

    def _start(self) -> None:
        if not self._participants or self._stopped:
            return
        first = self._next()
        assert first is not None
        _wake(first)

    def _enter(self, me: Participant) -> None:
        super()._enter(me)
        if self._stopped:
            _wake(me)
        self._schedule(self._now, me)

    def _block_first(self, me: Participant) -> None:
        if self._core is not None:
            os.sched_setaffinity(0, {self._core})  # 0 = the calling thread
        me.gate.acquire()
        if self._stopped:
            raise ClockStopped
        me.token += 1

    def _leave(self, me: Participant) -> None:  # noqa: ARG002 - its `finished` says it all
        if self._stopped:
            return
        successor = self._next()
        if successor is not None:
            _wake(successor)
        elif not all(other.finished for other in self._participants):
            self._fail(self._deadlock())

    def _schedule(self, t: Ns, who: Participant) -> None:
        self._seq += 1
        heapq.heappush(self._heap, (t, who.rank, who.key, self._seq, who.token, who))

    def _next(self) -> Participant | None:
        """Pop the earliest live entry and move the clock to it; None when nothing is due."""
        heap = self._heap
        while heap:
            t, _, _, _, token, who = heapq.heappop(heap)
            if token == who.token and not who.finished:
                self._now = max(self._now, t)
                return who
        return None

    def _pass_baton(self, me: Participant) -> None:
        if self._stopped:
            raise ClockStopped
        successor = self._next()
        if successor is None:
            raise self._deadlock()
        if successor is not me:
            self.num_wakeups += 1
            _wake(successor)
            me.gate.acquire()
        if self._stopped:
            raise ClockStopped
        me.token += 1  # whatever else would have woken this wait is void

    def _deadlock(self) -> DeadlockError:
        waiting = "; ".join(f"{p.name} waits for {p.waits_for()}" for p in self._participants if not p.finished)
        return DeadlockError(
            f"deadlock at engine time {s_from_ns(self._now):.6f} s: every thread is blocked and nothing is due "
            f"({waiting})",
            hint="this is a fault of the engine or of a policy; please report it with the run folder",
        )


def _wake(participant: Participant) -> None:
    """Let a blocked participant run; one that a stop from another thread has woken already needs nothing."""
    try:  # noqa: SIM105 - at every hand-over, where a context manager would cost as much as the rest
        participant.gate.release()
    except RuntimeError:  # the gate is open
        pass
