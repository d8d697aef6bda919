"""One pure function over several arguments, each in a process of its own, for work that takes seconds and no files.

Runs have engine processes, see ``process``; this is for questions about runs. A child is a fork, so it starts at once
with everything that was imported, and ends with its answer: nothing is left behind if its parent dies.
"""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar, cast

from fluxctl.errors import RunBrokeError

A = TypeVar("A")
R = TypeVar("R")


def map_forked(work: Callable[[A], R], items: Sequence[A], jobs: int) -> list[R]:
    """Apply ``work`` to every item, up to ``jobs`` at a time.

    Args:
        work: A pure function; what it takes and returns can be copied to another process.
        items: Its arguments.
        jobs: Processes at a time; with one, or where there is no fork, everything happens in this process.

    Returns:
        The results, in the order of ``items``.

    Raises:
        Exception: What ``work`` raised for the earliest item that has failed when one does.
        RunBrokeError: If a process ended without an answer.
    """
    if min(jobs, len(items)) <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(item) for item in items]
    results: dict[int, R] = {}
    open_: dict[Connection, tuple[int, BaseProcess]] = {}
    todo = list(enumerate(items))[::-1]
    try:
        while todo or open_:
            while todo and len(open_) < jobs:
                index, item = todo.pop()
                pipe, process = _start(work, item)
                open_[pipe] = (index, process)
            for pipe in sorted(cast("list[Connection]", wait(open_)), key=lambda ready: open_[ready][0]):
                results[open_[pipe][0]] = cast("R", _answer(pipe))
                open_.pop(pipe)[1].join()
    finally:
        for _, process in open_.values():
            process.kill()
            process.join()
    return [results[index] for index in range(len(items))]


def _start(work: Callable[[A], R], item: A) -> tuple[Connection, BaseProcess]:
    mine, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(theirs, work, item), daemon=True)
    with warnings.catch_warnings():  # of forking beside threads: those of a linear algebra library, which sleep
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return mine, process


def _child(pipe: Connection, work: Callable[[A], R], item: A) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent tells of an interrupt; a child just ends
        signal.signal(number, signal.SIG_DFL)
    try:
        pipe.send((work(item), None))
    except Exception as error:  # raised again in the parent
        pipe.send((None, error))


def _answer(pipe: Connection) -> object:
    try:
        result, error = pipe.recv()
    except EOFError:
        raise RunBrokeError("a process ended without an answer", hint="was it killed? try --jobs 1") from None
    finally:
        pipe.close()
    if error is not None:
        raise error
    return result
