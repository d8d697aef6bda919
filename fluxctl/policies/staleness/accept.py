"""Every update counts, however old, and as if it were fresh.

Asynchronous SGD without a discount: Xie et al., Asynchronous Federated Optimization, 2019, arXiv:1903.03934, at
constant mixing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessView
from fluxctl.registry import Params


@STALENESS.register("accept")
@final
@dataclass(frozen=True, slots=True)
class Accept:
    """Every update counts as if it were fresh."""

    params: Params
    can_reject: ClassVar[bool] = False

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update; see :class:`StalenessPolicy`."""
        _ = view.staleness  # refuses impossible stamps
        return StalenessDecision(accepted=True, rate_staleness=0)
