"""Both clocks keep the same promises; what only virtual time can promise is in test_virtual_clock.py."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock, Rank
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.engine.wall_clock import WallClock
from fluxctl.types import NS_PER_S, ns_from_s

pytestmark = pytest.mark.feature("A1")
S = NS_PER_S
FACTOR = 200.0  # an engine second takes 5 ms on the wall clock


@pytest.fixture(params=["virtual", "wall"])
def clock(request: pytest.FixtureRequest) -> Clock:
    return VirtualClock() if request.param == "virtual" else WallClock(FACTOR)


def run(clock: Clock, *bodies: Callable[[], None]) -> None:
    for index, body in enumerate(bodies):
        clock.spawn(body, f"body-{index}", key=index)
    clock.run()


class TestBothClocks:
    def test_sleepers_wake_in_order_of_time_and_not_early(self, clock: Clock) -> None:
        woken: list[tuple[int, int]] = []

        def sleeper(index: int, t: int) -> Callable[[], None]:
            def body() -> None:
                clock.sleep_until(t)
                woken.append((index, clock.now()))

            return body

        times = [9 * S, 3 * S, 6 * S, 1 * S]
        run(clock, *(sleeper(index, t) for index, t in enumerate(times)))
        assert all(now >= times[index] for index, now in woken)
        if isinstance(clock, VirtualClock):  # a busy machine may run two sleepers of a wall clock in either order
            assert [index for index, _ in woken] == [3, 1, 2, 0]

    def test_sleeping_until_the_past_returns_at_once(self, clock: Clock) -> None:
        seen: list[int] = []

        def body() -> None:
            clock.sleep_until(0)
            clock.sleep_until(-5)
            clock.sleep_until(2 * S)
            before = clock.now()
            clock.sleep_until(1 * S)
            seen.append(clock.now() - before)

        run(clock, body)
        assert 0 <= seen[0] < S

    def test_time_never_decreases(self, clock: Clock) -> None:
        seen: list[list[int]] = [[], []]

        def walker(index: int, step: int) -> Callable[[], None]:
            def body() -> None:
                for number in range(10):
                    seen[index].append(clock.now())
                    clock.sleep_until(number * step)
                    seen[index].append(clock.now())

            return body

        run(clock, walker(0, S // 10), walker(1, S // 7))
        assert all(times == sorted(times) for times in seen)
        assert all(times[0] >= 0 for times in seen)

    def test_a_message_wakes_its_reader(self, clock: Clock) -> None:
        box: Mailbox[str] = Mailbox("reader")
        got: list[object] = []

        def reader() -> None:
            got.append(clock.wait(box))
            got.append(box.take())

        def writer() -> None:
            clock.sleep_until(S)
            clock.put(box, "hello")

        run(clock, reader, writer)
        assert got == [True, "hello"]

    def test_a_waiting_message_is_there_at_once(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[object] = []

        def body() -> None:
            clock.put(box, 1)
            clock.put(box, 2)
            got.append(clock.wait(box, 0))
            got.extend(box.drain())

        run(clock, body)
        assert got == [True, 1, 2]
        assert len(box) == 0

    def test_a_deadline_ends_a_wait(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[object] = []

        def body() -> None:
            got.append(clock.wait(box, 2 * S))
            got.append(clock.now() >= 2 * S)
            got.append(clock.wait(box, S))  # in the past by now

        run(clock, body)
        assert got == [False, True, False]

    def test_a_reader_sleeps_until_it_has_enough(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[object] = []

        def reader() -> None:
            got.append((clock.wait(box, at_least=3), box.drain()))

        def writer() -> None:
            for number in range(3):
                clock.sleep_until((1 + number) * S)
                assert not got
                clock.put(box, number)

        run(clock, reader, writer)
        assert got == [(True, [0, 1, 2])]

    def test_too_few_messages_by_the_deadline_is_not_ready(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[object] = []

        def reader() -> None:
            got.append((clock.wait(box, 3 * S, at_least=2), len(box)))

        def writer() -> None:
            clock.sleep_until(S)
            clock.put(box, 1)

        run(clock, reader, writer)
        assert got == [(False, 1)]

    def test_an_urgent_message_wakes_whatever_the_reader_waits_for(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[object] = []

        def reader() -> None:
            got.append((clock.wait(box, at_least=5), box.drain(), box.urgent))

        def writer() -> None:
            clock.sleep_until(S)
            clock.put(box, 1, urgent=True)

        run(clock, reader, writer)
        assert got == [(True, [1], False)]

    def test_urgency_lasts_until_the_box_is_empty(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("reader")
        got: list[bool] = []

        def body() -> None:
            clock.put(box, 1, urgent=True)
            clock.put(box, 2)
            box.take()
            got.append(clock.wait(box, 0, at_least=9))
            box.take()
            got.append(clock.wait(box, 0, at_least=9))

        run(clock, body)
        assert got == [True, False]

    def test_a_participant_can_start_another(self, clock: Clock) -> None:
        log: list[str] = []

        def child() -> None:
            clock.sleep_until(2 * S)
            log.append("child")

        def parent() -> None:
            clock.sleep_until(S)
            clock.spawn(child, "child", key=9)
            log.append("parent")
            clock.sleep_until(3 * S)
            log.append("parent again")

        run(clock, parent)
        assert log == ["parent", "child", "parent again"]

    def test_a_stop_unwinds_everybody(self, clock: Clock) -> None:
        box: Mailbox[int] = Mailbox("nobody writes")
        unwound: list[str] = []

        def guarded(name: str, body: Callable[[], object]) -> Callable[[], None]:
            def guard() -> None:
                try:
                    body()
                finally:
                    unwound.append(name)

            return guard

        def stopper() -> None:
            clock.sleep_until(S)
            clock.stop()
            clock.stop()
            clock.sleep_until(2 * S)
            unwound.append("never")

        run(
            clock,
            guarded("sleeper", lambda: clock.sleep_until(10**6 * S)),
            guarded("reader", lambda: clock.wait(box)),
            guarded("patient reader", lambda: clock.wait(Mailbox("other"), 10**6 * S, at_least=2)),
            guarded("stopper", stopper),
        )
        assert sorted(unwound) == ["patient reader", "reader", "sleeper", "stopper"]
        assert clock.stopped
        assert clock.unfinished() == []

    def test_a_stop_before_the_start_ends_the_run(self, clock: Clock) -> None:
        log: list[str] = []
        clock.spawn(lambda: log.append("ran"), "body")
        clock.stop()
        clock.run()
        assert log == []
        assert clock.unfinished() == []

    def test_a_stop_from_outside_unwinds_everybody(self, clock: Clock) -> None:
        """A signal handler or a failing progress line is no participant."""

        def ping_pong(mine: Mailbox[int], other: Mailbox[int]) -> Callable[[], None]:
            def body() -> None:
                while True:
                    clock.put(other, 1)
                    clock.wait(mine)
                    mine.drain()

            return body

        first, second = Mailbox[int]("first"), Mailbox[int]("second")
        clock.spawn(ping_pong(first, second), "a", key=0)
        clock.spawn(ping_pong(second, first), "b", key=1)

        def broken_progress() -> None:
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            clock.run(broken_progress)
        for thread in threading.enumerate():
            if thread.name in ("a", "b"):
                thread.join(5.0)
        assert clock.unfinished() == []

    def test_an_exception_reaches_the_caller_and_ends_the_others(self, clock: Clock) -> None:
        def failing() -> None:
            clock.sleep_until(S)
            raise ZeroDivisionError("in a participant")

        with pytest.raises(ZeroDivisionError, match="in a participant"):
            run(clock, failing, lambda: clock.sleep_until(10**6 * S))
        assert clock.unfinished() == []

    def test_the_first_of_several_exceptions_counts(self, clock: Clock) -> None:
        def first() -> None:
            clock.sleep_until(S)
            raise ValueError("first")

        def second() -> None:
            try:
                clock.sleep_until(10**6 * S)
            finally:
                raise KeyError("second")

        with pytest.raises(ValueError, match="first"):
            run(clock, first, second)

    def test_only_participants_may_block(self, clock: Clock) -> None:
        with pytest.raises(RuntimeError, match="only a participant"):
            clock.sleep_until(S)
        with pytest.raises(RuntimeError, match="only a participant"):
            clock.wait(Mailbox("box"))

    def test_progress_is_reported_from_the_thread_that_runs(self, clock: Clock) -> None:
        threads: set[int] = set()
        clock.spawn(lambda: clock.sleep_until(S), "body")
        clock.run(lambda: threads.add(threading.get_ident()))
        assert threads == {threading.get_ident()}

    def test_without_participants_a_run_ends(self, clock: Clock) -> None:
        clock.run()
        assert not clock.stopped

    def test_a_nudge_needs_no_participant(self, clock: Clock) -> None:
        """On the wall it delivers; on a virtual clock the reader finds out at its deadline, which costs nothing."""
        box: Mailbox[str] = Mailbox("reader")
        got: list[object] = []

        def reader() -> None:
            helper = threading.Thread(target=lambda: clock.nudge(box, "early"))
            helper.start()
            is_ready = clock.wait(box, ns_from_s(3600), at_least=3)
            helper.join()
            got.append(is_ready)
            got.append(clock.now() >= ns_from_s(3600))

        run(clock, reader)
        assert got in ([True, False], [False, True])
        assert got[0] is isinstance(clock, WallClock)


@pytest.mark.wall
class TestWallClock:
    def test_time_is_zero_before_the_run(self) -> None:
        assert WallClock().now() == 0

    def test_the_factor_scales_real_time(self) -> None:
        real = iter([1_000, 1_010, 1_500])
        clock = WallClock(60.0, monotonic_ns=lambda: next(real))
        clock._start()
        assert [clock.now(), clock.now()] == [600, 30_000]

    def test_real_time_passes(self) -> None:
        import time

        clock = WallClock(10.0)
        start = time.monotonic()
        run(clock, lambda: clock.sleep_until(S // 2))
        assert time.monotonic() - start >= 0.05

    def test_participants_run_at_the_same_time(self) -> None:
        clock, barrier = WallClock(), threading.Barrier(3, timeout=10.0)
        run(clock, *[lambda: (barrier.wait(), None)[1]] * 3)
        assert not barrier.broken

    def test_rank_does_not_matter_to_the_wall(self) -> None:
        clock, log = WallClock(FACTOR), list[str]()

        def body(name: str, t: int) -> Callable[[], None]:
            return lambda: (clock.sleep_until(t), log.append(name))[1]

        clock.spawn(body("late trainer", 4 * S), "late trainer", rank=Rank.TRAINER)
        clock.spawn(body("early aggregator", S), "early aggregator", rank=Rank.AGGREGATOR)
        clock.run()
        assert log == ["early aggregator", "late trainer"]
