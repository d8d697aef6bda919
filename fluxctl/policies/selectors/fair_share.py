"""Those who have contributed least come first.

Huang et al., An Efficiency-Boosting Client Selection Scheme for Federated Learning With Fairness Guarantee, IEEE
TPDS 2021, arXiv:2011.01783, bound how far long-term shares may drift apart; this control evens them out at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from fluxctl.policies.selectors.base import SELECTORS, Selection, SelectionView
from fluxctl.policies.selectors.ranking import lowest
from fluxctl.registry import Params
from fluxctl.world.seeds import Stream

_NO_STATE: Final[Mapping[str, float]] = {}


@SELECTORS.register("fair_share")
@final
@dataclass(frozen=True, slots=True)
class FairShare:
    """The fewest committed updates first."""

    params: Params

    def initial_state(self) -> Mapping[str, float]:
        """Nothing is remembered."""
        return _NO_STATE

    def select(
        self,
        view: SelectionView,
        num: int,
        stream: Stream,
        state: Mapping[str, float],  # noqa: ARG002 (part of the protocol)
    ) -> Selection:
        """Choose by committed updates; see :class:`~fluxctl.policies.selectors.base.Selector`. Ties are random.

        Linear in the number of clients, vectorised.
        """
        eligible, num_commits = view.eligible(), view.beliefs.num_commits
        chosen = lowest(eligible, num_commits[eligible], num, stream)
        return Selection(tuple(chosen.tolist()), detail={"num_commits": num_commits[chosen].tolist()})
