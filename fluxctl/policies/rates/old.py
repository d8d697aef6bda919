"""Old updates count less: FedBuff's polynomial discount with exponent 1/2.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022, arXiv:2106.06639.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fluxctl.policies.rates.base import RATES, RateInput, RateResult, staleness_array
from fluxctl.registry import Params


@RATES.register("old")
@final
@dataclass(frozen=True, slots=True)
class Old:
    """Rate ``1 / sqrt(1 + staleness)``."""

    params: Params

    def rates(self, inputs: Sequence[RateInput], gradients: NDArray[np.float32]) -> RateResult:  # noqa: ARG002
        """Weigh a cohort; see :class:`Rate`."""
        return RateResult(1.0 / np.sqrt(1.0 + staleness_array(inputs)))
