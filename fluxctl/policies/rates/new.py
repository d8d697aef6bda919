"""Old updates count less and useful ones more: Felix's rate.

It mixes FedBuff's staleness discount (Nguyen et al., AISTATS 2022, arXiv:2106.06639) with Oort's statistical utility
(Lai et al., OSDI 2021): ``scale (1+s)^-a + (1-scale) [1.5 - (1+U)^-b]``. With the defaults a fresh update of a very
useful client approaches 1.3: a rate above 1 raises the server's step, which is why ``grad_aware`` offers a neutral
base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fluxctl.policies.rates.base import RATES, RateInput, RateResult, staleness_array
from fluxctl.registry import Params


class NewParams(Params):
    """What a preset may set."""

    scale: float = Field(0.4, ge=0, le=1, description="share of the staleness term; the rest is utility")
    a_exp: float = Field(0.25, ge=0, description="exponent of the staleness discount")
    b_exp: float = Field(0.1, ge=0, description="exponent of the utility term")


@RATES.register("new", NewParams)
@final
@dataclass(frozen=True, slots=True)
class New:
    """Staleness discount and statistical utility, mixed; may exceed 1."""

    params: NewParams

    def rates(self, inputs: Sequence[RateInput], gradients: NDArray[np.float32]) -> RateResult:  # noqa: ARG002
        """Weigh a cohort; see :class:`Rate`. An unknown utility counts as 0, the least."""
        utility = np.array([item.utility for item in inputs], dtype=np.float64)
        utility = np.where(np.isfinite(utility), np.maximum(utility, 0.0), 0.0)
        discount = (1.0 + staleness_array(inputs)) ** -self.params.a_exp
        benefit = 1.5 - (1.0 + utility) ** -self.params.b_exp
        return RateResult(self.params.scale * discount + (1.0 - self.params.scale) * benefit)
