"""What only virtual time promises: exact numbers, no real waiting, no lost work, and a diagnosis of deadlocks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import DeadlockError, Rank
from fluxctl.engine.compute import LocalExecutor
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.errors import ExitCode
from fluxctl.types import NS_PER_S

pytestmark = pytest.mark.feature("A2")
TEN_YEARS_NS = 10 * 365 * 86_400 * NS_PER_S


def test_nanoseconds_at_calendar_times_are_exact() -> None:
    clock, seen = VirtualClock(), list[int]()
    start = 1_700_000_000 * NS_PER_S

    def body() -> None:
        for step in range(5):
            clock.sleep_until(start + step)
            seen.append(clock.now())

    clock.spawn(body, "body")
    clock.run()
    assert seen == [start + step for step in range(5)]


def test_ten_years_are_exact_and_take_no_time() -> None:
    clock, start = VirtualClock(), time.monotonic()

    def body() -> None:
        for day in range(3_650):
            clock.sleep_until((day + 1) * 86_400 * NS_PER_S)
        clock.sleep_until(clock.now() + 1)

    clock.spawn(body, "body")
    clock.run()
    assert clock.now() == TEN_YEARS_NS + 1
    assert time.monotonic() - start < 60.0


def test_a_deadlock_names_everybody_and_what_they_wait_for() -> None:
    clock = VirtualClock()

    def waits_for_two() -> None:
        clock.sleep_until(2 * NS_PER_S)
        box = Mailbox[int]("orders")
        clock.put(box, 1)
        clock.wait(box, at_least=2)

    clock.spawn(waits_for_two, "cook", key=0)
    clock.spawn(lambda: clock.wait(Mailbox("dishes")), "waiter", key=1)
    clock.spawn(lambda: None, "guest who has left", key=2)
    with pytest.raises(DeadlockError) as caught:
        clock.run()
    message = caught.value.message
    assert "2.000000 s" in message
    assert "cook waits for 2 message(s) in mailbox 'orders', which has 1" in message
    assert "waiter waits for 1 message(s) in mailbox 'dishes', which has 0" in message
    assert "guest" not in message
    assert caught.value.code == "deadlock"
    assert caught.value.exit_code is ExitCode.RUN_BROKE
    assert clock.unfinished() == []


def test_a_deadlock_is_found_when_the_last_runner_leaves() -> None:
    clock = VirtualClock()
    clock.spawn(lambda: clock.wait(Mailbox("dishes")), "waiter", key=0)
    clock.spawn(lambda: clock.sleep_until(NS_PER_S), "cook", key=1)
    with pytest.raises(DeadlockError, match="waiter waits for"):
        clock.run()


@pytest.mark.feature("A32")
def test_never_passes_outstanding_work() -> None:
    """A participant that really waits for its compute holds the clock, though others are due in its near future."""
    clock, log, is_released = VirtualClock(), list[tuple[str, int]](), threading.Event()

    def slow_step() -> str:
        assert is_released.wait(30.0)
        log.append(("computed", clock.now()))
        return "result"

    with LocalExecutor(1) as executor:

        def trainer() -> None:
            job = executor.submit(slow_step, 5, on_error=lambda: None)
            clock.sleep_until(5)
            timer = threading.Timer(0.05, is_released.set)  # long after others could have run
            timer.start()
            assert job.result() == "result"
            log.append(("delivered", clock.now()))
            timer.join()

        def other() -> None:
            clock.sleep_until(4)
            log.append(("other", clock.now()))
            clock.sleep_until(6)
            log.append(("other", clock.now()))

        clock.spawn(trainer, "trainer", key=0)
        clock.spawn(other, "other", key=1)
        clock.run()
    assert log == [("other", 4), ("computed", 5), ("delivered", 5), ("other", 6)]


def test_a_void_deadline_does_not_move_the_clock() -> None:
    """A message that comes before the deadline takes the deadline with it."""
    clock, box, times = VirtualClock(), Mailbox[int]("reader"), list[int]()

    def reader() -> None:
        for _ in range(2):
            clock.wait(box, 1_000)
            box.drain()
            times.append(clock.now())

    def writer() -> None:
        for t in (10, 20):
            clock.sleep_until(t)
            clock.put(box, t)

    clock.spawn(reader, "reader", rank=Rank.AGGREGATOR)
    clock.spawn(writer, "writer")
    clock.run()
    assert times == [10, 20]
    assert clock.now() == 20


def test_a_message_and_a_deadline_at_one_instant_wake_the_reader_once() -> None:
    clock, box, woken = VirtualClock(), Mailbox[int]("reader"), list[tuple[bool, int]]()

    def reader() -> None:
        woken.append((clock.wait(box, 10), clock.now()))
        box.drain()
        woken.append((clock.wait(box, 30), clock.now()))

    def writer() -> None:
        clock.sleep_until(10)
        clock.put(box, 1)

    clock.spawn(reader, "reader", rank=Rank.AGGREGATOR)
    clock.spawn(writer, "writer")
    clock.run()
    assert woken == [(True, 10), (False, 30)]


def test_trainers_go_before_the_aggregator_at_one_instant() -> None:
    clock, log = VirtualClock(), list[str]()
    clock.spawn(lambda: (clock.sleep_until(5), log.append("aggregator"))[1], "aggregator", rank=Rank.AGGREGATOR)
    for key in (2, 1):
        clock.spawn(lambda k=key: (clock.sleep_until(5), log.append(f"trainer {k}"))[1], f"trainer-{key}", key=key)
    clock.run()
    assert log == ["trainer 1", "trainer 2", "aggregator"]


def test_whoever_is_spawned_after_a_stop_ends_at_once() -> None:
    clock, log = VirtualClock(), list[str]()

    def body() -> None:
        clock.stop()
        clock.spawn(lambda: log.append("ran"), "late")

    clock.spawn(body, "body")
    clock.run()
    assert log == []
    assert clock.unfinished() == []


def test_a_thousand_participants() -> None:
    clock, order = VirtualClock(), list[int]()

    def body(me: int) -> None:
        clock.sleep_until(1_000 - me)
        order.append(me)

    for me in range(1_000):
        clock.spawn(lambda m=me: body(m), f"p{me}", key=me)
    clock.run()
    assert order == list(range(999, -1, -1))


@pytest.mark.feature("A4")
def test_nothing_waits_with_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a virtual clock block on locks, which have no duration, and on nothing else."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody slept")

    clock, box = VirtualClock(), Mailbox[int]("reader")

    def reader() -> None:
        for number in range(50):
            clock.wait(box, (number + 1) * NS_PER_S)
            box.drain()

    def writer() -> None:
        for number in range(50):
            clock.sleep_until(number * NS_PER_S + 7)
            clock.put(box, number)

    clock.spawn(reader, "reader", rank=Rank.AGGREGATOR)
    clock.spawn(writer, "writer")
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", refuse)
        patch.setattr(threading.Condition, "wait", refuse)
        patch.setattr(threading.Event, "wait", refuse)
        clock.run()
    assert clock.now() == 49 * NS_PER_S + 7


def test_outside_threads_do_not_disturb() -> None:
    """Compute threads read the time and nudge; neither moves anything."""
    clock, box = VirtualClock(), Mailbox[int]("reader")
    with ThreadPoolExecutor(2) as pool:

        def body() -> None:
            for number in range(20):
                pool.submit(clock.nudge, box, number).result()
                clock.sleep_until(number)

        clock.spawn(body, "body")
        clock.run()
    assert len(box) == 0
    assert clock.now() == 19
