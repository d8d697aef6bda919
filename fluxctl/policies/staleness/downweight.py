"""Every update counts, at its age.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022, arXiv:2106.06639.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessView
from fluxctl.registry import Params


@STALENESS.register("downweight")
@final
@dataclass(frozen=True, slots=True)
class Downweight:
    """Every update counts; its rate is computed from its age in model versions."""

    params: Params

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update; see :class:`StalenessPolicy`."""
        return StalenessDecision(accepted=True, rate_staleness=view.staleness)
