"""Every update counts, at its age.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022, arXiv:2106.06639, count age in
model versions. A version lasts as long as its bin takes, and bins differ much under a variance gate; age in engine
seconds does not depend on them. It then includes the client's own computing time: a slow client's update is old even
if the model has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from pydantic import Field

from fluxctl.policies.staleness.base import STALENESS, StalenessDecision, StalenessView
from fluxctl.registry import Params


class DownweightParams(Params):
    """What a preset may set."""

    clock: Literal["versions", "seconds"] = Field("versions", description="what age is counted in")
    seconds_per_version: float = Field(
        60.0, gt=0, description="clock seconds: engine seconds that weigh like one version"
    )


@STALENESS.register("downweight", DownweightParams)
@final
@dataclass(frozen=True, slots=True)
class Downweight:
    """Every update counts; its rate is computed from its age."""

    params: DownweightParams
    can_reject: ClassVar[bool] = False

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update; see :class:`StalenessPolicy`."""
        staleness: float = view.staleness  # also refuses impossible stamps
        if self.params.clock == "seconds":
            staleness = view.age_s / self.params.seconds_per_version
        return StalenessDecision(accepted=True, rate_staleness=staleness)
