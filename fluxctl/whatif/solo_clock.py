"""A virtual clock for a run without threads: trainers are entries of a heap, and only the aggregator executes.

A client whose work is not computed has nothing to do between its dispatch and its due time. So a task that is put into
a trainer's mailbox becomes an update at that time, and waiting is taking the next entry. What the aggregator sees is
what :class:`~fluxctl.engine.virtual_clock.VirtualClock` would show it, several times faster.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeVar

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock, ClockStopped, DeadlockError, Participant, Rank
from fluxctl.engine.messages import Cancel, Register, Train, Update
from fluxctl.errors import InvariantError
from fluxctl.types import NEVER, Ns, s_from_ns

M = TypeVar("M")
_TICK_EVERY = 1000  # updates


class SoloClock(Clock):
    """The clock of what-if runs.

    Args:
        answer: The update that comes of a task.
        on_update: Called with the time and the number of updates so far, after each.
        start_ns: Where time begins.
    """

    def __init__(
        self, answer: Callable[[Train], Update], on_update: Callable[[Ns, int], None], start_ns: Ns = 0
    ) -> None:
        super().__init__()
        self._answer = answer
        self._on_update = on_update
        self._now = start_ns
        self._body: Callable[[], None] | None = None
        self._arrivals: list[object] = []  # registrations that the aggregator has not seen yet
        self._heap: list[tuple[Ns, int, Train]] = []
        self._cancelled: set[int] = set()
        self._on_tick: Callable[[], None] = lambda: None
        self.num_updates = 0

    def now(self) -> Ns:
        """Engine time."""
        return self._now

    def spawn(self, body: Callable[[], None], name: str, *, rank: Rank = Rank.TRAINER, key: int = 0) -> None:  # noqa: ARG002
        """Keep the aggregator's body for :meth:`run`; a trainer only registers."""
        if rank is Rank.AGGREGATOR:
            self._body = body
        else:
            self._arrivals.append(Register(key))

    def run(self, on_tick: Callable[[], None] = lambda: None) -> None:
        """Run the aggregator in the calling thread."""
        if self._body is None:
            raise InvariantError("there is no aggregator to run")
        self._on_tick = on_tick
        self._body()

    def sleep_until(self, t: Ns) -> None:
        """Let time pass."""
        self._now = max(self._now, t)

    def wait(self, mailbox: Mailbox[M], deadline: Ns | None = None, *, at_least: int = 1) -> bool:
        """Deliver updates until the mailbox is ready or the next one is due after the deadline."""
        if self._stopped:
            raise ClockStopped
        self._deliver_registrations(mailbox)
        while not mailbox.ready(at_least):
            task = self._next(deadline)
            if task is None:
                return False
            self._deliver(mailbox, task)
        return True

    def put(self, mailbox: Mailbox[M], message: M, *, urgent: bool = False) -> None:  # noqa: ARG002
        """Take a trainer's message."""
        if isinstance(message, Cancel):
            self._cancelled.add(message.task_id)
        elif isinstance(message, Train) and message.earliest_due_ns < NEVER:
            task: Train = message
            heapq.heappush(self._heap, (task.earliest_due_ns, task.task_id, task))

    def nudge(self, mailbox: Mailbox[M], message: M) -> None:
        """Nothing to gain: nobody waits in real time."""

    def stop(self) -> None:
        """The next wait unwinds."""
        self._stopped = True

    def _next(self, deadline: Ns | None) -> Train | None:
        """Take the next task that is done by the deadline; None, and the time is the deadline, if there is none."""
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._heap)[1])
        if deadline is not None and (deadline <= self._now or not self._heap or self._heap[0][0] > deadline):
            self._now = max(self._now, deadline)
            return None
        if not self._heap:
            raise DeadlockError(f"the aggregator waits at {s_from_ns(self._now):.6f} s and nothing is due")
        due_ns, _, task = heapq.heappop(self._heap)
        self._now = max(self._now, due_ns)
        return task

    def _deliver(self, mailbox: Mailbox[M], task: Train) -> None:
        # The only mailbox that anybody waits for here is the aggregator's, which takes updates.
        mailbox.append(self._answer(task))  # type: ignore[arg-type]
        self.num_updates += 1
        self._on_update(self._now, self.num_updates)
        if self.num_updates % _TICK_EVERY == 0:
            self._on_tick()

    def _deliver_registrations(self, mailbox: Mailbox[M]) -> None:
        for message in self._arrivals:
            mailbox.append(message)  # type: ignore[arg-type]
        self._arrivals.clear()

    def _start(self) -> None:
        """Unused: :meth:`run` does it all."""

    def _block_first(self, me: Participant) -> None:
        """Unused: there are no threads."""

    def _leave(self, me: Participant) -> None:
        """Unused: there are no threads."""
