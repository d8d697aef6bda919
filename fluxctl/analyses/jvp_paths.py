"""One client step computed in several ways: what each costs, and how it compares with what it must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from fluxctl import wall
from fluxctl.config.model import StepConfig
from fluxctl.telemetry.columns import Floats
from fluxctl.types import JSON, NS_PER_S

if TYPE_CHECKING:
    from fluxctl.learn.learner import Learner
    from fluxctl.learn.local_step import StepRequest, StepResult

EstimatorName = Literal["central_difference", "forward_difference", "jvp"]
ESTIMATORS: Final[tuple[EstimatorName, ...]] = ("jvp", "central_difference", "forward_difference")  # exact first


class Agreement(StrEnum):
    """How one way of computing a step compares with the one it is held against."""

    REFERENCE = "REFERENCE"
    IDENTICAL = "BIT-IDENTICAL"
    WITHIN = "WITHIN-TOL"
    DIVERGED = "DIVERGED"


@dataclass(frozen=True)
class Path:
    """One estimator on one path, over the sampled tasks.

    Attributes:
        estimator: How a derivative is measured.
        is_fast: Whether passes for logs are left out.
        passes: Forward passes of a step.
        latency_s: Median wall seconds of a step here.
        memory_bytes: Peak working memory of a step, one direction at a time.
        against: What it is compared with.
        agreement: How it compares.
        worst: Largest difference of a derivative, relative to the largest derivative of its step.
    """

    estimator: EstimatorName
    is_fast: bool
    passes: int
    latency_s: float
    memory_bytes: int
    against: str
    agreement: Agreement
    worst: float

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.estimator} {'fast' if self.is_fast else 'plain'}"

    def to_json(self) -> dict[str, JSON]:
        """The path as JSON."""
        return {
            "estimator": self.estimator,
            "is_fast": self.is_fast,
            "passes": self.passes,
            "latency_s": self.latency_s,
            "memory_bytes": self.memory_bytes,
            "against": self.against,
            "agreement": self.agreement.value,
            "worst_relative_difference": self.worst,
        }


def compare_paths(
    learner: Learner, base: StepConfig, requests: Sequence[StepRequest], tolerance: float
) -> Iterator[Path]:
    """Each estimator's plain path, held against exact forward-mode AD, and its fast path, against the plain one."""
    exact: list[Floats] | None = None
    for estimator in ESTIMATORS:
        plain = base.model_copy(update={"estimator": estimator, "fast_path": False})
        fast = base.model_copy(update={"estimator": estimator, "fast_path": True})
        slow_results, slow_s = _timed(learner.with_step(plain), requests)
        fast_results, fast_s = _timed(learner.with_step(fast), requests)
        memory = learner.with_step(plain).step_memory(requests[0]).forward_gradient_bytes
        slopes = [np.array(result.jvps) for result in slow_results]
        if exact is None:
            exact, agreement, worst = slopes, Agreement.REFERENCE, 0.0
        else:
            worst = max(_difference(one, other) for one, other in zip(slopes, exact, strict=True))
            agreement = Agreement.WITHIN if worst <= tolerance else Agreement.DIVERGED
        passes = slow_results[0].forward_passes, fast_results[0].forward_passes
        yield Path(estimator, False, passes[0], slow_s, memory, "jvp plain", agreement, worst)
        same, worst = _same_bits(slow_results, fast_results)
        agreement = Agreement.IDENTICAL if same else Agreement.WITHIN if worst <= tolerance else Agreement.DIVERGED
        yield Path(estimator, True, passes[1], fast_s, memory, f"{estimator} plain", agreement, worst)


def _timed(learner: Learner, requests: Sequence[StepRequest]) -> tuple[list[StepResult], float]:
    """All steps, and the median wall seconds of one; the first is done twice, to warm up."""
    learner.step(requests[0])
    results, seconds = [], []
    for request in requests:
        start = wall.monotonic_ns()
        results.append(learner.step(request))
        seconds.append((wall.monotonic_ns() - start) / NS_PER_S)
    return results, median(seconds)


def _difference(one: Floats, other: Floats) -> float:
    """Largest difference relative to the largest derivative of the step; infinite where a number is not finite."""
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return float("inf")
    scale = float(np.abs(other).max(initial=0.0))
    return float(np.abs(one - other).max(initial=0.0)) / scale if scale else float(np.abs(one).max(initial=0.0))


def _same_bits(left: Sequence[StepResult], right: Sequence[StepResult]) -> tuple[bool, float]:
    """Whether all gradients and derivatives are the same bits, and the largest relative difference if not."""
    is_same, worst = True, 0.0
    for one, other in zip(left, right, strict=True):
        gradients = one.gradient.numpy(), other.gradient.numpy()
        is_same &= gradients[0].tobytes() == gradients[1].tobytes() and one.jvps == other.jvps
        worst = max(worst, _difference(gradients[1].astype(np.float64), gradients[0].astype(np.float64)))
    return is_same, worst
