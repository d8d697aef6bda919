"""The body of a trainer thread: receive, step, hold until due, send.

A trainer is a thread from the pool; the client that it acts for changes from task to task. The same lines run on both
clocks: the step is submitted at once, the update is held until its due time on the engine's clock, and only then the
result is asked for.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock
from fluxctl.engine.compute import Executor, Job
from fluxctl.engine.messages import (
    Cancel,
    Register,
    StepFailed,
    StepReport,
    ToAggregator,
    ToTrainer,
    Train,
    TrainerFailure,
    Update,
)
from fluxctl.types import NEVER, Ns, ns_from_s


@dataclass(frozen=True, slots=True)
class StepOutput:
    """An encoded update and what was measured while it was made."""

    payload: bytes
    report: StepReport


class Workload(Protocol):
    """What clients compute."""

    def receive(self, task: Train) -> None:
        """Take in what was sent along, whether or not the step will run; quick, in the aggregator's thread.

        Called when the task is sent, so a client has messages in the order in which they were sent, however late the
        threads are that work for it.
        """
        ...

    def step(self, task: Train) -> StepOutput:
        """Do one local step; thread-safe, in any thread but the aggregator's."""
        ...


@dataclass(frozen=True)
class Trainer:
    """One trainer thread.

    Args:
        index: Number of the thread.
        clock: The engine's clock.
        executor: Where steps run.
        workload: What a step is.
        inbox: Where tasks arrive.
        outbox: The aggregator's mailbox.
        due: Final due time of a task, given the wall nanoseconds that its compute took; not before its earliest due
            time.
        fails_fast: Report a failed step at once instead of at its due time.
    """

    index: int
    clock: Clock
    executor: Executor
    workload: Workload
    inbox: Mailbox[ToTrainer]
    outbox: Mailbox[ToAggregator]
    due: Callable[[Train, Ns], Ns]
    fails_fast: bool = True

    def run(self) -> None:
        """Work until the clock stops."""
        self.clock.put(self.outbox, Register(self.index))
        while True:
            self.clock.wait(self.inbox)
            message = self.inbox.take()
            if isinstance(message, Train):
                self._train(message)
            # Anything else here concerns a task that was delivered in the same instant; there is nothing left to stop.

    def _train(self, task: Train) -> None:
        if task.earliest_due_ns >= NEVER:  # nobody will see what becomes of it, not even that it fails
            self._hold(task, NEVER)
            return
        recv_ns = self.clock.now()
        job = self.executor.submit(
            lambda: self.workload.step(task),
            task.earliest_due_ns,
            on_error=lambda: self.clock.nudge(self.inbox, StepFailed(task.task_id)),
        )
        if not self._hold(task, task.earliest_due_ns, job):
            return
        try:
            output = job.result()
        except Exception as error:  # whatever a step raises is the aggregator's to judge
            last = traceback.extract_tb(error.__traceback__)[-1]
            failure = TrainerFailure(
                self.index,
                task,
                error=f"{type(error).__name__}: {error}",
                place=f"{last.filename}:{last.lineno}",
                traceback=traceback.format_exc(),
            )
            self.clock.put(self.outbox, failure, urgent=True)
            return
        due_ns = self.due(task, ns_from_s(output.report.compute_wall_s))
        if not self._hold(task, due_ns, job):
            return
        update = Update(self.index, task, recv_ns, due_ns, self.clock.now(), output.payload, output.report)
        self.clock.put(self.outbox, update)

    def _hold(self, task: Train, t: Ns, job: Job[StepOutput] | None = None) -> bool:
        """Block until ``t``; False when the task was cancelled meanwhile."""
        while self.clock.wait(self.inbox, t if t < NEVER else None):
            message = self.inbox.take()
            match message:
                case Cancel(task_id) if task_id == task.task_id:
                    if job is not None:
                        job.cancel()
                    return False
                case StepFailed(task_id) if task_id == task.task_id and self.fails_fast:
                    return True  # the error will be found in the job at once
        return True
