"""Updates of any iteration of the open bin count: fwdllm_plus, a variant of FwdLLM.

Xu et al., FwdLLM, USENIX ATC 2024, arXiv:2308.13894.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessView
from fluxctl.registry import Params


@STALENESS.register("round_bin")
@final
@dataclass(frozen=True, slots=True)
class RoundBin:
    """Model version, round and bin must be the current ones; the iteration may be an earlier one."""

    params: Params
    can_reject: ClassVar[bool] = True

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update; see :class:`StalenessPolicy`."""
        staleness = view.staleness
        is_same_bin = (view.update_version, view.update_round, view.update_bin) == (view.version, view.round, view.bin)
        return StalenessDecision(accepted=is_same_bin, rate_staleness=staleness)
