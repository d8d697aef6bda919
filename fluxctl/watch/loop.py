"""Follows or replays an event file through the stop rules.

A finished run that is replayed under its own limits ends at the event at which the engine ended it, with the same
verdict: the rules are the same functions and the events hold what they looked at. A live run is followed the same way,
piece by piece. Nothing here reads a clock or stops anything; that is for whoever calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fluxctl.config.model import Config
from fluxctl.policies.stopping import EvalPoint, StopConditions, StopDecision, StopState
from fluxctl.telemetry.evaluations import CYCLE, EVALUATION, VERDICT, engine_s, eval_point, judged
from fluxctl.types import JSON

_NUM_RECENT: Final = 120  # evaluations kept for a curve
_ORDER: Final = {EVALUATION: 0, CYCLE: 1, VERDICT: 2}  # as the engine judges what happens at one time


def conditions_of(config: Config) -> StopConditions:
    """What a run is judged by; the same as its engine builds."""
    return StopConditions(config.limits, config.runtime_budget_s(), 1 / len(config.data.classes))


@dataclass(frozen=True, slots=True)
class Line:
    """An event that stop rules look at, and its line in the file (from 1)."""

    number: int
    event: dict[str, Any]

    @property
    def t_ns(self) -> int:
        """Engine time in nanoseconds."""
        t = self.event.get("t_ns")
        return t if isinstance(t, int) else 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Place among the events of one time: evaluations by version, then cycles, then the end."""
        version = self.event.get("version")
        return _ORDER[self.event["event"]], version if isinstance(version, int) else 0, self.number


class EventTail:
    """Reads what has been added to an event file; a line that is still being written waits for its end.

    Args:
        path: ``events.jsonl`` of a run; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._number = 0

    def new(self) -> Iterator[Line]:
        """The events since the last call that stop rules look at."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                self._offset += len(raw)
                self._number += 1
                event = judged(raw)
                if event is not None:
                    yield Line(self._number, event)


@dataclass
class Guard:
    """The stop rules over a stream of events.

    Events of one time are judged together, in the order in which the engine judged them, whatever their order in the
    file.

    Args:
        conditions: What to judge by.
    """

    conditions: StopConditions
    state: StopState = field(init=False)
    engine_s: float = 0.0
    at: Line | None = None  # the event at which a rule fired
    end: dict[str, Any] | None = None  # the run's own verdict event
    recent: deque[EvalPoint] = field(default_factory=lambda: deque(maxlen=_NUM_RECENT))
    num_evaluations: int = 0
    _group: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = StopState(self.conditions)

    @property
    def decision(self) -> StopDecision | None:
        """The end of the run by these rules, if they have fired."""
        return self.state.decision

    def take(self, line: Line) -> None:
        """Take in the next event."""
        if self._group and line.t_ns != self._group[0].t_ns:
            self.settle()
        self._group.append(line)
        if line.event["event"] == VERDICT:
            self.settle()

    def settle(self) -> None:
        """Judge the events of the latest time; no more of them will come."""
        for line in sorted(self._group, key=lambda item: item.order):
            self._judge(line)
        self._group.clear()

    def _judge(self, line: Line) -> None:
        event = line.event
        if event["event"] == VERDICT:
            self.end = event
        before = self.state
        if before.decision is not None:
            return
        self.engine_s = engine_s(event)
        if event["event"] == EVALUATION:
            point = eval_point(event)
            self.recent.append(point)
            self.num_evaluations += 1
            self.state = before.update(point)
        else:
            self.state = before.tick(self.engine_s)
        if self.state.decision is not None:
            self.at = line

    def where(self) -> dict[str, JSON] | None:
        """The event at which a rule fired, for machines."""
        if self.at is None:
            return None
        bins = self.state.last.bins if self.state.last is not None else 0
        return {
            "line": self.at.number,
            "event": str(self.at.event["event"]),
            "t_ns": self.at.t_ns,
            "engine_s": self.engine_s,
            "bins": bins,
        }


def replay(path: Path, conditions: StopConditions) -> Guard:
    """Feed a whole event file to the rules."""
    guard = Guard(conditions)
    for line in EventTail(path).new():
        guard.take(line)
        if guard.end is not None:
            break
    guard.settle()
    return guard
