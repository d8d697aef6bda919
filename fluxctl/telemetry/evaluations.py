"""Evaluations as the stop rules saw them, read back from an event file.

A run's events hold everything that its stop rules judge: evaluations, the time of each cycle, and the end. Lines of
other kinds are the most by far, so they are passed over without being parsed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fluxctl.policies.stopping import EvalPoint
from fluxctl.types import s_from_ns

EVALUATION: Final = "agg_eval"
CYCLE: Final = "agg_round"
VERDICT: Final = "verdict"
_MARKS: Final = tuple(f'"{name}"'.encode() for name in (EVALUATION, CYCLE, VERDICT))


def eval_point(event: dict[str, Any]) -> EvalPoint:
    """The evaluation that an ``agg_eval`` event records; a number that is missing or null is nan."""
    counts = event.get("predicted_counts")
    return EvalPoint(
        bins=int(_number(event.get("version"), 0.0)),
        round=int(_number(event.get("round"), 0.0)),
        engine_s=engine_s(event),
        accuracy=_number(event.get("test_accuracy")),
        loss=_number(event.get("test_loss")),
        mcc=_number(event.get("mcc")),
        one_class=isinstance(counts, list) and sum(bool(count) for count in counts) == 1,
        finite=event.get("weights_finite") is not False,  # said only when they are not
    )


def engine_s(event: dict[str, Any]) -> float:
    """Engine time of an event in seconds."""
    return s_from_ns(int(_number(event.get("t_ns"), 0.0)))


def judged(raw: bytes) -> dict[str, Any] | None:
    """The event on a line if stop rules look at its kind; None for the others and for damaged lines."""
    if not any(mark in raw for mark in _MARKS):
        return None
    try:
        event = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    is_judged = isinstance(event, dict) and event.get("event") in (EVALUATION, CYCLE, VERDICT)
    return event if is_judged else None


def evaluations(path: Path) -> Iterator[EvalPoint]:
    """The evaluations of a run, in file order."""
    with path.open("rb") as file:
        for raw in file:
            event = judged(raw)
            if event is not None and event["event"] == EVALUATION:
                yield eval_point(event)


def _number(value: object, default: float = math.nan) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else default  # type: ignore[arg-type]  # narrowed by is_number
