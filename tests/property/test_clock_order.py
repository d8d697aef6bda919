"""The virtual clock against oracles: a brute-force model, and simpy."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Generator
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Rank
from fluxctl.engine.virtual_clock import VirtualClock

pytestmark = pytest.mark.feature("A2")

# A program is, per participant, its rank, its key, and how long it sleeps each time.
Program = list[tuple[Rank, int, list[int]]]
Trace = list[tuple[int, int]]  # time, participant

programs = st.lists(
    st.tuples(
        st.sampled_from(Rank),
        st.integers(0, 3),
        st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2 * 10**18)), max_size=6),
    ),
    min_size=1,
    max_size=6,
)


def traced(program: Program, *, waits_on_mailbox: bool = False) -> Trace:
    """Run a program; a participant notes itself each time that it goes on."""
    clock, trace, lock = VirtualClock(), Trace(), threading.Lock()

    def body(me: int, delays: list[int]) -> None:
        box = Mailbox[int](f"box-{me}")
        for delay in (None, *delays):
            if delay is not None and waits_on_mailbox:
                assert not clock.wait(box, clock.now() + delay)
            elif delay is not None:
                clock.sleep_until(clock.now() + delay)
            assert lock.acquire(blocking=False), "two participants run at one moment"
            trace.append((clock.now(), me))
            lock.release()

    for index, (rank, key, delays) in enumerate(program):
        clock.spawn(lambda me=index, d=delays: body(me, d), f"p{index}", rank=rank, key=key)
    clock.run()
    return trace


def expected(program: Program) -> Trace:
    """Brute force: always go on with the participant whose (time, rank, key, seq) is smallest."""
    now, trace, heap = 0, Trace(), list[tuple[int, int, int, int, int]]()
    left = [list(delays) for _, _, delays in program]
    for seq, (rank, key, _) in enumerate(program):
        heapq.heappush(heap, (0, rank, key, seq, seq))
    seq = len(program)
    while heap:
        now, rank, key, _, me = heapq.heappop(heap)
        trace.append((now, me))
        while left[me] and left[me][0] == 0:  # a sleep of nothing does not give way
            left[me].pop(0)
            trace.append((now, me))
        if left[me]:
            heapq.heappush(heap, (now + left[me].pop(0), rank, key, seq, me))
            seq += 1
    return trace


@given(programs)
@settings(max_examples=80)
def test_the_order_is_time_then_rank_then_key_then_sequence(program: Program) -> None:
    assert traced(program) == expected(program)


@given(programs)
@settings(max_examples=40)
def test_waiting_for_a_deadline_is_sleeping(program: Program) -> None:
    assert traced(program, waits_on_mailbox=True) == expected(program)


@given(st.lists(st.lists(st.integers(1, 5), max_size=6), min_size=1, max_size=6))
@settings(max_examples=60)
def test_agrees_with_simpy(delays: list[list[int]]) -> None:
    environment, reference = simpy.Environment(), Trace()

    def process(me: int) -> Generator[Any, Any, None]:
        reference.append((environment.now, me))
        for delay in delays[me]:
            yield environment.timeout(delay)
            reference.append((environment.now, me))

    for me in range(len(delays)):
        environment.process(process(me))
    environment.run()
    same_rank_and_key = [(Rank.TRAINER, 0, mine) for mine in delays]
    assert traced(same_rank_and_key) == reference


@given(programs)
@settings(max_examples=10)
def test_ten_runs_have_one_trace(program: Program) -> None:
    assert len({tuple(traced(program)) for _ in range(10)}) == 1


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=12))
@settings(max_examples=60)
def test_messages_against_simpy(sends: list[tuple[int, int, int]]) -> None:
    """Senders put at given times; each reader notes when it got what. simpy is the oracle for times."""
    clock, got = VirtualClock(), set[tuple[int, int, int]]()
    boxes = [Mailbox[int](f"reader-{index}") for index in range(3)]

    def reader(index: int) -> None:
        for _ in range(sum(target == index for _, target, _ in sends)):
            assert clock.wait(boxes[index])
            got.add((clock.now(), index, boxes[index].take()))

    def sender(number: int, t: int, target: int, step: int) -> None:
        clock.sleep_until(t)
        clock.sleep_until(t + step)
        clock.put(boxes[target], number)

    for index in range(3):
        clock.spawn(lambda i=index: reader(i), f"reader-{index}", rank=Rank.AGGREGATOR, key=index)
    for number, (t, target, step) in enumerate(sends):
        clock.spawn(lambda n=number, a=t, b=target, c=step: sender(n, a, b, c), f"sender-{number}", key=number)
    clock.run()

    environment, expected_got = simpy.Environment(), set[tuple[int, int, int]]()
    stores = [simpy.Store(environment) for _ in range(3)]

    def simpy_reader(index: int) -> Generator[Any, Any, None]:
        while True:
            number = yield stores[index].get()
            expected_got.add((environment.now, index, number))

    def simpy_sender(number: int, t: int, target: int, step: int) -> Generator[Any, Any, None]:
        yield environment.timeout(t)
        yield environment.timeout(step)
        yield stores[target].put(number)

    for index in range(3):
        environment.process(simpy_reader(index))
    for number, send in enumerate(sends):
        environment.process(simpy_sender(number, *send))
    environment.run()
    assert got == expected_got
