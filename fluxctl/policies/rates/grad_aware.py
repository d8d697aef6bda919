"""Updates that point away from the cohort count less: fluxtune's gradient-aware rate.

Rate = base x alignment x inverse variance, where the alignment is judged by the cosine to the running sum of what was
merged before it, in the spirit of conflict-aware merging (Yu et al., Gradient Surgery for Multi-Task Learning,
NeurIPS 2020, arXiv:2001.06782). The running sum makes the result depend on the order: callers pass the canonical one.
In high dimension cosines of independent estimates concentrate at 0, so the gate can be nearly inert; ``num_gated``
tells how often it acted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fluxctl.policies.rates.base import RATES, RateInput, RateResult
from fluxctl.policies.rates.new import New, NewParams
from fluxctl.registry import Params

_NEW: Final = New(NewParams())
_VARIANCE_GUARD: Final = 1e-8  # keeps the quotient finite for a variance of 0


class GradAwareParams(Params):
    """What a preset may set."""

    base: Literal["new", "neutral"] = Field("new", description="rate that is lowered: new, or neutral = 1")
    floor: float = Field(0.0, gt=-1, le=1, description="cosine from which an update counts in full")
    inverse_variance: bool = Field(False, description="also lower updates whose own variance exceeds the reference")
    reference_variance: float = Field(0.3, gt=0, description="variance up to which an update counts in full")


@RATES.register("grad_aware", GradAwareParams)
@final
@dataclass(frozen=True, slots=True)
class GradAware:
    """A base rate, lowered for updates that disagree with those merged before them; never above the base."""

    params: GradAwareParams

    def rates(self, inputs: Sequence[RateInput], gradients: NDArray[np.float32]) -> RateResult:
        """Weigh a cohort; see :class:`Rate`."""
        base = _NEW.rates(inputs, gradients).rates if self.params.base == "new" else np.ones(len(inputs))
        rates = np.array([rate * self._certainty(item) for rate, item in zip(base.tolist(), inputs, strict=True)])
        running = np.zeros(gradients.shape[1:], dtype=np.float64)
        num_gated = 0
        for index, gradient in enumerate(gradients):
            align = self._alignment(cosine(gradient, running))
            num_gated += align < 1.0
            rates[index] *= align
            running += rates[index] * gradient
        return RateResult(rates, num_gated)

    def _alignment(self, cos: float | None) -> float:
        """1 from the floor on and where there is nothing to compare with, down to 0 for the opposite direction."""
        return 1.0 if cos is None else min(max((1.0 + cos) / (1.0 + self.params.floor), 0.0), 1.0)

    def _certainty(self, item: RateInput) -> float:
        if not self.params.inverse_variance or item.variance is None or math.isnan(item.variance):
            return 1.0
        return min(1.0, self.params.reference_variance / (item.variance + _VARIANCE_GUARD))


def cosine(gradient: NDArray[np.float32], running: NDArray[np.float64]) -> float | None:
    """Cosine between an update and the running aggregate, both of shape ``(d,)``.

    Sums are numpy's own and not a BLAS dot product, whose last bits depend on its number of threads.

    Returns:
        None where it is not defined: a vector is zero or not finite.
    """
    wide = gradient.astype(np.float64)
    norm = math.sqrt(float(np.sum(wide * wide)) * float(np.sum(running * running)))
    if not (0.0 < norm < math.inf):
        return None
    return float(np.sum(wide * running)) / norm
