"""What a picture of a pair needs, taken from the columns while they are in memory: a few hundred numbers.

Long series are thinned to evenly spaced points that include the first and the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fluxctl.parity.observed import Observed
from fluxctl.telemetry.columns import AbsentField
from fluxctl.types import NS_PER_S

Line: TypeAlias = "tuple[list[float], list[float]]"  # x and y, of one length
_MOST: Final = 400  # points of a line
_CONTRIBUTIONS: Final = 120  # updates whose order of commit is drawn, around the first difference


@dataclass(frozen=True)
class Sketch:
    """Both runs in outline; left first, empty lines where a run has no such events.

    Attributes:
        labels: What the runs are called.
        accuracy: Engine seconds and test accuracy.
        clock: Engine seconds of each commit on the logical clock, and on the run's own.
        order: Number of the update in the order of commits, and the client that it came from.
        first_difference: Number of the first update that comes from another client; None if there is none.
    """

    labels: tuple[str, str]
    accuracy: tuple[Line, Line]
    clock: tuple[Line, Line]
    order: tuple[Line, Line]
    first_difference: int | None


def sketch(left: Observed, right: Observed) -> Sketch:
    """Outline a pair."""
    orders = (_clients(left), _clients(right))
    first = _first_difference(*orders)
    start = 0 if first is None else max(0, first - _CONTRIBUTIONS // 3)
    return Sketch(
        (left.label, right.label),
        (_accuracy(left), _accuracy(right)),
        (_clock(left), _clock(right)),
        (_window(orders[0], start), _window(orders[1], start)),
        first,
    )


def _accuracy(run: Observed) -> Line:
    try:
        evaluations = run["agg_eval"]
        return _thin(evaluations.ints("t_ns") / NS_PER_S, evaluations.numbers("test_accuracy"))
    except AbsentField:
        return [], []


def _clock(run: Observed) -> Line:
    try:
        return _thin(run.commit_s, run.intrinsic_s)
    except AbsentField:
        return [], []


def _clients(run: Observed) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(run.cycles.lists("contributing_trainers").values, dtype=np.float64)
    except AbsentField:
        return np.zeros(0)


def _first_difference(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> int | None:
    num = min(len(left), len(right))
    differ = np.flatnonzero(left[:num] != right[:num])
    return int(differ[0]) if len(differ) else None


def _window(clients: npt.NDArray[np.float64], start: int) -> Line:
    part = clients[start : start + _CONTRIBUTIONS]
    return [float(number) for number in range(start + 1, start + 1 + len(part))], part.tolist()


def _thin(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Line:
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) > _MOST:
        kept = np.unique(np.linspace(0, len(x) - 1, _MOST).round().astype(np.int64))
        x, y = x[kept], y[kept]
    return x.tolist(), y.tolist()
