"""What a rate sees of a cohort and what it answers.

A rate is the factor of one update in the aggregate. Rates are asked for a whole cohort at once, in canonical order,
because some of them compare an update with those before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fluxctl.registry import Registry


@dataclass(frozen=True, slots=True)
class RateInput:
    """What is known of one update besides its gradient.

    Attributes:
        staleness: Age as the staleness policy counts it, in versions or what it equates with them; at least 0.
        utility: Client's statistical utility; not finite = unknown.
        variance: Variance of the update's own estimate; None if it was not measured.
    """

    staleness: float
    utility: float = math.nan
    variance: float | None = None


@dataclass(frozen=True, slots=True)
class RateResult:
    """Rates of a cohort.

    Attributes:
        rates: One finite factor of at least 0 per update, float64, shape ``(n,)``, in the order of the inputs.
        num_gated: Updates that were lowered because they point away from the others.
    """

    rates: NDArray[np.float64]
    num_gated: int = 0


class Rate(Protocol):
    """Weighs the updates of a cohort."""

    def rates(self, inputs: Sequence[RateInput], gradients: NDArray[np.float32]) -> RateResult:
        """Weigh a cohort.

        Args:
            inputs: The cohort in canonical order.
            gradients: Its gradients, float32, shape ``(n, d)``; left unchanged.
        """
        ...


RATES: Final[Registry[Rate]] = Registry("rate")


def staleness_array(inputs: Sequence[RateInput]) -> NDArray[np.float64]:
    """The staleness of each update, shape ``(n,)``."""
    return np.array([item.staleness for item in inputs], dtype=np.float64)
