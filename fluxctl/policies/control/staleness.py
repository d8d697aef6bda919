"""Fewer clients in flight while updates come back too old.

With C in flight and K per commit an update waits about C / K - 1 versions: C is what staleness can be steered by
(Nguyen et al., AISTATS 2022, arXiv:2106.06639). FluxTune's control by staleness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pydantic import Field

from fluxctl.policies.control.base import CONTROLLERS, ControlDecision, ControlParams, ControlView, mean


class StalenessParams(ControlParams):
    """What a preset may set."""

    target: float = Field(2.0, gt=0, description="mean staleness in versions above which C shrinks")
    concurrency_frac: float = Field(0.1, gt=0, lt=1, description="relative change of C per decision, at least 1 client")


@CONTROLLERS.register("staleness", StalenessParams)
@final
@dataclass(frozen=True, slots=True)
class Staleness:
    """C follows the mean staleness of the updates."""

    params: StalenessParams

    @property
    def schedule(self) -> ControlParams:
        """When it is asked."""
        return self.params

    def decide(self, view: ControlView) -> ControlDecision:
        """Decide C; see :class:`~fluxctl.policies.control.base.Controller`. C grows below half of the target."""
        found = mean([commit.staleness for commit in view.commits])
        step = max(int(view.concurrency * self.params.concurrency_frac + 0.5), 1)
        concurrency = view.concurrency
        if found is not None and found > self.params.target:
            concurrency -= step
        elif found is not None and found < self.params.target / 2:
            concurrency += step
        inputs = {"mean_staleness": found, "target": self.params.target}
        return self.params.bounded(view, view.goal, concurrency, inputs)
