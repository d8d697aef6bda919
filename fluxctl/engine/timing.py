"""How long functions take on the wall (C15), each without the functions that it calls, so that nothing counts twice.

A timer belongs to one step or cycle. A function that raises leaves no time of its own, and what it had already spent
stays with its caller, if that one survives; the times of a step that nobody asks for any more go with it. Off, a timer
costs a call per function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

from fluxctl import wall
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import NS_PER_S, ClientId, Ns

EVENT: Final = "step_timing"


@dataclass(frozen=True, slots=True)
class FunctionTime:
    """One call of a function.

    Attributes:
        function: Its name.
        duration_s: Wall seconds, without those of timed functions that it called.
    """

    function: str
    duration_s: float


class Place(Protocol):
    """What a step or cycle worked on."""

    @property
    def round(self) -> int:
        """Pass over all bins."""
        ...

    @property
    def bin(self) -> int:
        """Bin within the pass."""
        ...

    @property
    def iteration(self) -> int:
        """Iteration within the bin."""
        ...


class Timer(Protocol):
    """Times the functions of one step or cycle."""

    @property
    def times(self) -> tuple[FunctionTime, ...]:
        """Calls that have returned, inner ones first."""
        ...

    def __call__(self, function: str) -> AbstractContextManager[None]:
        """Time what happens in a ``with`` block as ``function``; not thread-safe, blocks may be nested."""
        ...


class FunctionTimer:
    """A timer that is on."""

    def __init__(self) -> None:
        self._times: list[FunctionTime] = []
        self._called_ns: list[Ns] = [0]  # of each open block: what timed functions within it took

    @property
    def times(self) -> tuple[FunctionTime, ...]:
        """Calls that have returned."""
        return tuple(self._times)

    @contextmanager
    def __call__(self, function: str) -> Iterator[None]:
        """Time a block."""
        start_ns = wall.monotonic_ns()
        self._called_ns.append(0)
        num_before = len(self._times)
        try:
            yield
        except BaseException:
            self._called_ns.pop()
            del self._times[num_before:]  # what it called was part of what has failed
            raise
        total_ns = wall.monotonic_ns() - start_ns
        self._times.append(FunctionTime(function, (total_ns - self._called_ns.pop()) / NS_PER_S))
        self._called_ns[-1] += total_ns


class _Off:
    """A timer that measures nothing."""

    times: tuple[FunctionTime, ...] = ()

    def __call__(self, function: str) -> AbstractContextManager[None]:  # noqa: ARG002 - the protocol's
        return _NOTHING


_NOTHING: Final = nullcontext()
OFF: Final[Timer] = _Off()


def timer(*, is_on: bool) -> Timer:
    """A timer for one step or cycle."""
    return FunctionTimer() if is_on else OFF


def note_timing(writer: EventSink, time: FunctionTime, place: Place, client: ClientId | None) -> None:
    """Write a line of ``wall.jsonl`` (C15): it depends on the machine and is no part of the event stream."""
    writer.note(
        EVENT,
        {
            "function": time.function,
            "duration_s": time.duration_s,
            "round": place.round,
            "bin": place.bin,
            "iteration": place.iteration,
            "client": client,
        },
    )
