"""Every update counts alike: McMahan et al., AISTATS 2017, arXiv:1602.05629. What FwdLLM's scripts do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fluxctl.policies.rates.base import RATES, RateInput, RateResult
from fluxctl.registry import Params


@RATES.register("fedavg")
@final
@dataclass(frozen=True, slots=True)
class FedAvg:
    """Rate 1 for every update."""

    params: Params

    def rates(self, inputs: Sequence[RateInput], gradients: NDArray[np.float32]) -> RateResult:  # noqa: ARG002
        """Weigh a cohort; see :class:`Rate`."""
        return RateResult(np.ones(len(inputs)))
