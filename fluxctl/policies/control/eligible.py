"""Goal and concurrency follow the number of clients that can be reached.

A fixed C starves when few clients are available and leaves clients idle when many are. FluxTune's control by eligible
clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

from pydantic import Field, model_validator

from fluxctl.policies.control.base import CONTROLLERS, ControlDecision, ControlParams, ControlView, mean


class EligibleParams(ControlParams):
    """What a preset may set."""

    goal_frac: float = Field(0.1, gt=0, le=1, description="K as a share of the mean number of reachable clients")
    concurrency_frac: float = Field(0.3, gt=0, le=1, description="C as a share of the mean number of reachable clients")

    @model_validator(mode="after")
    def _fractions(self) -> Self:
        if self.goal_frac > self.concurrency_frac:
            raise ValueError(
                f"goal_frac ({self.goal_frac:g}) must not exceed concurrency_frac ({self.concurrency_frac:g})"
            )
        return self


@CONTROLLERS.register("eligible", EligibleParams)
@final
@dataclass(frozen=True, slots=True)
class Eligible:
    """K and C are shares of the mean number of reachable clients."""

    params: EligibleParams

    @property
    def schedule(self) -> ControlParams:
        """When it is asked."""
        return self.params

    def decide(self, view: ControlView) -> ControlDecision:
        """Decide K and C; see :class:`~fluxctl.policies.control.base.Controller`."""
        found = mean([commit.num_eligible for commit in view.commits])
        inputs = {
            "mean_eligible": found,
            "goal_frac": self.params.goal_frac,
            "concurrency_frac": self.params.concurrency_frac,
        }
        if found is None:
            return self.params.bounded(view, view.goal, view.concurrency, inputs)
        goal, concurrency = round(found * self.params.goal_frac), round(found * self.params.concurrency_frac)
        return self.params.bounded(view, goal, concurrency, inputs)
