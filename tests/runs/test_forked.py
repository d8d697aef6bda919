"""Questions answered in child processes."""

import os
import signal
from functools import partial

import pytest

from fluxctl.errors import ConfigError, RunBrokeError
from fluxctl.runs.forked import map_forked


def squared(number):
    return number * number, os.getpid()


def refuses(number, *, bad):
    if number in bad:
        raise ConfigError(f"{number} is bad", where="here", hint="take another", snippet="x\n^")
    return number


def dies(number):
    os.kill(os.getpid(), signal.SIGKILL if number == 1 else 0)
    return number


@pytest.mark.feature("F23")
def test_answers_come_in_order_from_processes_of_their_own():
    found = map_forked(squared, range(7), 3)
    assert [square for square, _ in found] == [0, 1, 4, 9, 16, 25, 36]
    processes = {process for _, process in found}
    assert os.getpid() not in processes
    assert len(processes) == 7
    assert all(not os.path.exists(f"/proc/{process}") for process in processes)


@pytest.mark.parametrize(("items", "jobs"), [([], 4), ([3], 4), ([1, 2], 1)])
def test_one_at_a_time_happens_here(items, jobs):
    assert map_forked(squared, items, jobs) == [(item * item, os.getpid()) for item in items]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_the_same_here_and_there(jobs):
    with pytest.raises(ConfigError) as caught:
        map_forked(partial(refuses, bad={1}), range(4), jobs)
    error = caught.value
    assert (error.message, error.where, error.hint, error.snippet) == ("1 is bad", "here", "take another", "x\n^")


def test_a_process_that_dies_is_told():
    with pytest.raises(RunBrokeError, match="ended without an answer"):
        map_forked(dies, range(3), 2)
