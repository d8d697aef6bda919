"""One client's states over a finite horizon, and what holds beyond it.

Arrays are sorted and queries bisect them. Construction removes what has no duration and joins equal neighbours, so
every stored start is a real change, whatever the data looked like.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fluxctl.errors import InvariantError
from fluxctl.types import Availability, Ns
from fluxctl.world.availability.states import States


class Exhaustion(StrEnum):
    """What a client does when its trace has ended."""

    WRAP = "wrap"  # it starts over
    HOLD = "hold"  # it stays in its last state
    STOP = "stop"  # it is gone


@dataclass(frozen=True, slots=True)
class Timeline:
    """States over ``[0, end)``.

    Args:
        starts: When each state begins, strictly increasing, from 0.
        states: The states, each different from the one before.
        end: End of the data, after the last start.
        exhaustion: What holds from ``end`` on.
    """

    starts: tuple[Ns, ...]
    states: tuple[Availability, ...]
    end: Ns
    exhaustion: Exhaustion

    @staticmethod
    def of(changes: Iterable[tuple[Ns, Availability]], end: Ns, exhaustion: Exhaustion) -> Timeline:
        """Build from changes in time order.

        Args:
            changes: (time, state from then on). Of several at one time the last holds. Before the first the client
                is unavailable. What lies at or after ``end`` is ignored.
            end: End of the data, at least 1.
            exhaustion: What holds from then on.

        Raises:
            InvariantError: If times decrease or ``end`` is not positive; readers check this with file and line.
        """
        if end < 1:
            raise InvariantError(f"a timeline must last: its end is {end}")
        starts: list[Ns] = [0]
        states: list[Availability] = [Availability.UN_AVL]
        latest = 0
        for time, state in changes:
            if time < latest:
                raise InvariantError(f"a timeline's changes must be in time order: {time} follows {latest}")
            latest = time
            if time >= end:
                continue
            if time == starts[-1]:  # the state before had no duration
                starts.pop()
                states.pop()
            if not states or states[-1] is not state:
                starts.append(time)
                states.append(state)
        return Timeline(tuple(starts), tuple(states), end, exhaustion)

    def state(self, t: Ns) -> Availability:
        """State at ``t``."""
        if t >= self.end:
            if self.exhaustion is Exhaustion.STOP:
                return Availability.UN_AVL
            if self.exhaustion is Exhaustion.HOLD:
                return self.states[-1]
            t %= self.end
        return self.states[bisect_right(self.starts, t) - 1]

    def next_change(self, t: Ns) -> Ns | None:
        """The first change after ``t``; None if there is none."""
        wraps = self.exhaustion is Exhaustion.WRAP
        if t >= self.end and not wraps:
            return None
        cycle, within = divmod(t, self.end)
        index = bisect_right(self.starts, within)
        if index < len(self.starts):
            return cycle * self.end + self.starts[index]
        if not wraps:
            stops = self.exhaustion is Exhaustion.STOP and self.states[-1] is not Availability.UN_AVL
            return self.end if stops else None
        if self.states[0] is not self.states[-1]:
            return (cycle + 1) * self.end
        return (cycle + 1) * self.end + self.starts[1] if len(self.starts) > 1 else None

    def next_available(self, t: Ns, eligible: States) -> Ns | None:
        """The first time at or after ``t`` in an eligible state; None if there is none."""
        if self.state(t) in eligible:
            return t
        wraps = self.exhaustion is Exhaustion.WRAP
        if t >= self.end and not wraps:
            return None
        cycle, within = divmod(t, self.end)
        first = bisect_right(self.starts, within)
        for index in range(first, len(self.starts)):
            if self.states[index] in eligible:
                return cycle * self.end + self.starts[index]
        if not wraps:
            return self.end if self._eligible_when_gone(eligible) else None
        for index in range(first):
            if self.states[index] in eligible:
                return (cycle + 1) * self.end + self.starts[index]
        return None

    def available_ns(self, t: Ns, eligible: States) -> Ns:
        """Nanoseconds of ``[0, t)`` in eligible states."""
        if t <= self.end:
            return self._within_ns(t, eligible)
        if self.exhaustion is Exhaustion.WRAP:
            cycles, rest = divmod(t, self.end)
            return cycles * self._within_ns(self.end, eligible) + self._within_ns(rest, eligible)
        beyond = t - self.end if self.state(self.end) in eligible else 0
        return self._within_ns(self.end, eligible) + beyond

    def _eligible_when_gone(self, eligible: States) -> bool:
        return self.exhaustion is Exhaustion.STOP and Availability.UN_AVL in eligible

    def _within_ns(self, t: Ns, eligible: States) -> Ns:
        ends = (*self.starts[1:], self.end)
        return sum(
            min(end, t) - start
            for start, end, state in zip(self.starts, ends, self.states, strict=True)
            if start < t and state in eligible
        )
