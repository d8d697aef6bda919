"""The executor: nearest deadline first, stolen when due, cancelled when not needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from fluxctl.engine.compute import Job, LocalExecutor

WAIT_S = 30.0  # only ever reached by a test that fails


def nothing() -> None:
    """No one to tell."""


class Gate:
    """A computation that says when it has begun and waits to be let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.open.wait(WAIT_S)
        return "gate"


@pytest.mark.feature("A32")
def test_workers_take_the_nearest_deadline_first() -> None:
    gate, order, all_done = Gate(), list[int](), threading.Event()

    def note(number: int) -> Callable[[], None]:
        return lambda: order.append(number)

    with LocalExecutor(1) as executor:
        blocker = executor.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        jobs = [executor.submit(note(deadline), deadline, nothing) for deadline in (30, 10, 20, 10)]
        executor.submit(all_done.set, 10**18, nothing)
        gate.open.set()
        assert blocker.result() == "gate"
        assert all_done.wait(WAIT_S)  # not by result(), which would run jobs here
        assert [job.result() for job in jobs] == [None] * 4
    assert order == [10, 10, 20, 30]


@pytest.mark.feature("A32")
def test_who_waits_for_a_job_computes_another_one_meanwhile() -> None:
    """The worker is held by a job that only the other one can end."""
    gate, threads, later = Gate(), list[int](), threading.Event()

    def other() -> None:
        threads.append(threading.get_ident())
        gate.open.set()

    with LocalExecutor(1, waiters_help=True) as executor:
        blocker = executor.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        job = executor.submit(other, 1, nothing)
        assert blocker.result() == "gate"
        assert job.result() is None
        executor.submit(later.set, 2, nothing)  # the worker finds the next one, and not the one that was taken
        assert later.wait(WAIT_S)
    assert threads == [threading.get_ident()]


@pytest.mark.feature("A32")
def test_who_waits_helps_only_if_told_and_if_there_is_something_to_do() -> None:
    gate = Gate()
    with LocalExecutor(1) as waiting, LocalExecutor(1, waiters_help=True) as helping:
        assert not helping._help_out()
        blocker = waiting.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        job = waiting.submit(lambda: "job", 1, nothing)
        assert not waiting._help_out()
        gate.open.set()
        assert (blocker.result(), job.result()) == ("gate", "job")


@pytest.mark.feature("A32")
def test_a_job_that_nobody_has_started_runs_where_it_is_needed() -> None:
    gate = Gate()
    with LocalExecutor(1) as executor:
        blocker = executor.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        threads = list[int]()
        job = executor.submit(lambda: threads.append(threading.get_ident()), 1, nothing)
        job.result()
        gate.open.set()
        blocker.result()
    assert threads == [threading.get_ident()]


def test_without_workers_everything_runs_where_it_is_needed() -> None:
    with LocalExecutor(0) as executor:
        threads = list[int]()
        job = executor.submit(lambda: threads.append(threading.get_ident()) or 7, 1, nothing)
        assert threads == []
        assert job.result() == job.result() == 7
    assert threads == [threading.get_ident()]


def test_a_job_runs_once_however_many_ask() -> None:
    count, barrier = list[int](), threading.Barrier(4)
    job: Job[int] = Job(lambda: count.append(1) or 3, nothing)
    results = list[int]()

    def ask() -> None:
        barrier.wait(WAIT_S)
        results.append(job.result())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert results == [3] * 4
    assert count == [1]


def test_a_cancelled_job_never_runs_and_nobody_waits_for_it() -> None:
    gate, ran = Gate(), list[str]()
    with LocalExecutor(1) as executor:
        blocker = executor.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        job = executor.submit(lambda: ran.append("cancelled"), 1, nothing)
        after = executor.submit(lambda: ran.append("after"), 2, nothing)
        assert job.cancel()
        assert not job.cancel()
        gate.open.set()
        blocker.result()
        after.result()
        with pytest.raises(CancelledError):
            job.result()
    assert ran == ["after"]


def test_a_job_that_runs_cannot_be_cancelled() -> None:
    gate = Gate()
    with LocalExecutor(1) as executor:
        job = executor.submit(gate, 0, nothing)
        assert gate.begun.wait(WAIT_S)
        assert not job.cancel()
        gate.open.set()
        assert job.result() == "gate"
        assert not job.cancel()


@pytest.mark.feature("A31")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_is_raised_where_the_result_is_asked_for(num_workers: int) -> None:
    told = threading.Event()

    def fail() -> None:
        raise KeyError("in the step")

    with LocalExecutor(num_workers) as executor:
        job = executor.submit(fail, 0, told.set)
        if num_workers:
            assert told.wait(WAIT_S)  # at once, before anybody asks
        for _ in range(2):
            with pytest.raises(KeyError, match="in the step"):
                job.result()
        assert told.is_set()
        good = executor.submit(lambda: 5, 1, told.clear)
        assert good.result() == 5  # the worker has survived
    assert told.is_set()


def test_workers_end_with_the_executor_and_leave_queued_work_to_its_owner() -> None:
    before = set(threading.enumerate())
    with LocalExecutor(3) as executor:
        jobs = [executor.submit(lambda n=number: n * n, number, nothing) for number in range(50)]
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("compute-")]
    assert [job.result() for job in jobs] == [number * number for number in range(50)]
