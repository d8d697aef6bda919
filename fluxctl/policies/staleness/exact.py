"""Only updates of the very cycle that is open count: the synchronous rule of FwdLLM.

Xu et al., FwdLLM, USENIX ATC 2024, arXiv:2308.13894.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessView
from fluxctl.registry import Params


@STALENESS.register("exact")
@final
@dataclass(frozen=True, slots=True)
class Exact:
    """Model version, round, bin and iteration must all be the current ones."""

    params: Params
    can_reject: ClassVar[bool] = True

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update; see :class:`StalenessPolicy`."""
        staleness = view.staleness
        is_current = (view.update_version, view.update_round, view.update_bin, view.update_iteration) == (
            view.version,
            view.round,
            view.bin,
            view.iteration,
        )
        return StalenessDecision(accepted=is_current, rate_staleness=staleness)
