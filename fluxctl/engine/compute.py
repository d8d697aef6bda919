"""Compute as a future with a deadline.

A trainer submits its step when it is dispatched and needs the result only at its due time. Until then worker threads
take the steps whose deadline is nearest; a trainer whose step has not been started when it is due runs it itself, and
one whose step is under way elsewhere may take another one meanwhile. So cores stay busy, nobody waits for a queue, and
results do not depend on who computed them.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from fluxctl import wall
from fluxctl.types import NS_PER_S, Ns

R = TypeVar("R")


class Job(Generic[R]):
    """One submitted computation.

    Args:
        work: What to compute.
        on_error: Called at once if it raises.
        help_out: Runs one other job that nobody has started, and says whether there was one; for whoever waits.
    """

    __slots__ = ("_claim", "_done", "_error", "_finished", "_help_out", "_on_error", "_result", "_work")

    def __init__(
        self, work: Callable[[], R], on_error: Callable[[], None], help_out: Callable[[], bool] = lambda: False
    ) -> None:
        self._work = work
        self._on_error = on_error
        self._help_out = help_out
        self._claim = threading.Lock()  # taken by whoever runs the job; never released
        self._done = threading.Lock()  # held until the job has finished
        self._done.acquire()
        self._finished = False
        self._result: R | None = None
        self._error: BaseException | None = None

    def claim(self) -> bool:
        """Take the right to run, or to cancel, this job; True for exactly one caller."""
        return self._claim.acquire(blocking=False)

    def run_claimed(self) -> None:
        """Run the job; only for the caller whose :meth:`claim` returned True."""
        try:
            self._result = self._work()
        except BaseException as error:  # raised again in result(), in the trainer's thread
            self._error = error
        finally:
            self._finished = True
            self._done.release()
        if self._error is not None:
            self._on_error()

    def cancel(self) -> bool:
        """Keep the job from starting; False when it already has. The result of a cancelled job is CancelledError."""
        if not self.claim():
            return False
        self._error = CancelledError()
        self._finished = True
        self._done.release()
        return True

    def result(self) -> R:
        """The result, computing it here if nobody has started to.

        Raises:
            BaseException: Whatever the computation raised; CancelledError if it was cancelled.
        """
        if not self._finished:
            if self.claim():
                self.run_claimed()
            else:
                self._await()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # set whenever there is no error

    def _await(self) -> None:
        """Wait for whoever runs the job, and let no core idle meanwhile."""
        while not self._finished and self._help_out():
            pass
        self._done.acquire()
        self._done.release()


class Executor(Protocol):
    """Where steps run."""

    def submit(self, work: Callable[[], R], deadline: Ns, on_error: Callable[[], None]) -> Job[R]:
        """Queue ``work``, which is needed at engine time ``deadline``; ``on_error`` is called at once if it raises."""
        ...


class LocalExecutor:
    """Worker threads of this process, nearest deadline first.

    Args:
        num_workers: Threads; 0 = every step runs in its trainer's thread when it is due.
        prepare: Called first in each of them.
        shortest_s: Steps that take less than this on average are left to their trainers: handing one over costs more
            than another core saves.
        waiters_help: A trainer that waits for a step takes another one meanwhile. Saves wall time where all that
            counts is when everything is computed; on a wall clock it would make that trainer late.
    """

    def __init__(
        self,
        num_workers: int,
        prepare: Callable[[], None] = lambda: None,
        *,
        shortest_s: float = 0.0,
        waiters_help: bool = False,
    ) -> None:
        self._prepare = prepare
        self._shortest_s = shortest_s
        self._waiters_help = waiters_help
        self._mean_s = shortest_s  # of recent steps; a race between threads costs a little accuracy and no result
        self._queue: list[tuple[Ns, int, Job[object]]] = []
        self._seq = 0
        self._lock = threading.Lock()
        self._work = threading.Semaphore(0)
        self._closed = False
        self._workers = [
            threading.Thread(target=self._run, name=f"compute-{index}", daemon=True) for index in range(num_workers)
        ]

    def __enter__(self) -> Self:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        for _ in self._workers:
            self._work.release()
        for worker in self._workers:
            worker.join(5.0)

    def submit(self, work: Callable[[], R], deadline: Ns, on_error: Callable[[], None]) -> Job[R]:
        """Queue ``work``, which is needed at engine time ``deadline``; ``on_error`` is called at once if it raises."""
        job: Job[R] = Job(self._timed(work) if self._shortest_s else work, on_error, self._help_out)
        if self._workers and self._mean_s >= self._shortest_s:
            with self._lock:
                self._seq += 1
                heapq.heappush(self._queue, (deadline, self._seq, job))  # type: ignore[misc]  # Job[R] is a Job[object]
            self._work.release()
        return job

    def _timed(self, work: Callable[[], R]) -> Callable[[], R]:
        def run() -> R:
            start_ns = wall.thread_cpu_ns()  # and not wall time, which is long because threads are in each other's way
            result = work()
            self._mean_s += 0.1 * ((wall.thread_cpu_ns() - start_ns) / NS_PER_S - self._mean_s)
            return result

        return run

    def _run(self) -> None:
        self._prepare()
        while True:
            self._work.acquire()
            if self._closed:
                return
            self._take()

    def _take(self) -> None:
        """Run the job with the nearest deadline, unless somebody has started it; only after acquiring ``_work``."""
        with self._lock:
            _, _, job = heapq.heappop(self._queue)
        if job.claim():
            job.run_claimed()

    def _help_out(self) -> bool:
        if not self._waiters_help or self._closed or not self._work.acquire(blocking=False):
            return False
        self._take()
        return True
