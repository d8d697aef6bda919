"""Judging a rung by one or more numbers, each within its own bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Final, Self

from fluxctl.parity.result import MIN_SAMPLES, Finding, Status
from fluxctl.types import JSON

_ROUNDING: Final = 1e-9  # relative; 3 of 15 is within 0.2, in whatever order it was computed


def is_within(value: float, limit: float) -> bool:
    """Whether a number is at most a limit, up to rounding; nan never is."""
    return value <= limit * (1 + _ROUNDING)


@dataclass(frozen=True, slots=True)
class Bound:
    """One number of a rung.

    Attributes:
        name: What it is, as in ``num_chosen rel``; empty where the rung has only one.
        value: What was measured, at least 0; nan never passes.
        limit: Largest value that passes.
    """

    name: str
    value: float
    limit: float

    @property
    def threshold(self) -> str:
        """The bound in words."""
        return f"{self.name} <= {self.limit:g}".lstrip()

    @property
    def holds(self) -> bool:
        """Whether the value is within the limit, up to rounding."""
        return is_within(self.value, self.limit)

    @property
    def strain(self) -> float:
        """How much of the limit is used up; nan counts as infinite."""
        return math.inf if math.isnan(self.value) else self.value / self.limit


@dataclass(frozen=True)
class Evidence:
    """What two runs show for a rung.

    Attributes:
        num_left: Samples of the first run.
        num_right: Samples of the second one.
        message: What was compared and what came out.
        detail: More numbers.
    """

    num_left: int
    num_right: int
    message: str
    detail: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[Sized], message: str, detail: Mapping[str, JSON] | None = None) -> Self:
        """Evidence from the samples of both runs."""
        left, right = samples
        return cls(len(left), len(right), message, detail or {})

    @property
    def n(self) -> int:
        """Samples of the smaller side."""
        return min(self.num_left, self.num_right)


def judged_bounds(bounds: Sequence[Bound], evidence: Evidence, *, min_samples: int = MIN_SAMPLES) -> Finding:
    """PASS if every bound holds; the value that is told is the one that is nearest to its limit, or furthest beyond.

    Args:
        bounds: At least one.
        evidence: How many samples they rest on, and the message.
        min_samples: Below this on either side the answer is INCONCLUSIVE.
    """
    threshold = ", ".join(bound.threshold for bound in bounds)
    if evidence.n < min_samples:
        return too_few(evidence.num_left, evidence.num_right, min_samples, threshold)
    worst = max(bounds, key=lambda bound: bound.strain)
    status = Status.PASS if all(bound.holds for bound in bounds) else Status.FAIL
    value = None if math.isnan(worst.value) else worst.value
    return Finding(status, value, threshold, evidence.n, evidence.message, evidence.detail, worst.limit)


def judged_at_least(
    value: float, least: float, evidence: Evidence, *, min_samples: int = MIN_SAMPLES, otherwise: Status = Status.FAIL
) -> Finding:
    """PASS if a number reaches a bound.

    Args:
        value: What was measured; nan never passes.
        least: Smallest value that passes.
        evidence: How many samples it rests on, and the message.
        min_samples: Below this on either side the answer is INCONCLUSIVE.
        otherwise: The answer if it does not pass.
    """
    threshold = f">= {least:g}"
    if evidence.n < min_samples:
        return too_few(evidence.num_left, evidence.num_right, min_samples, threshold)
    status = Status.PASS if value >= least else otherwise
    return Finding(
        status, None if math.isnan(value) else value, threshold, evidence.n, evidence.message, evidence.detail
    )


def too_few(num_left: int, num_right: int, minimum: int = MIN_SAMPLES, threshold: str = "") -> Finding:
    """A rung that has too few samples to tell."""
    message = f"{num_left} and {num_right} samples, at least {minimum} are needed on each side"
    detail = {"min_samples": minimum}
    return Finding(Status.INCONCLUSIVE, None, threshold, min(num_left, num_right), message, detail)


def no_rows(what: str) -> Finding:
    """An invariant or exact rung without a single thing to look at."""
    return Finding(Status.INCONCLUSIVE, None, "", 0, f"{what}, and at least one is needed", {"min_samples": 1})
