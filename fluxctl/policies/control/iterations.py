"""More updates per cycle while bins need many iterations.

A bin that takes many iterations to pass the variance gate pays a barrier for each; a larger K collects the same
updates in fewer of them. FluxTune's adaptive K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pydantic import Field

from fluxctl.policies.control.base import CONTROLLERS, ControlDecision, ControlParams, ControlView, mean


class IterationsParams(ControlParams):
    """What a preset may set."""

    target: float = Field(15.0, ge=1, description="iterations per bin above which K grows and below which it shrinks")
    goal_step: int = Field(2, ge=1, description="change of K per decision")


@CONTROLLERS.register("iterations", IterationsParams)
@final
@dataclass(frozen=True, slots=True)
class Iterations:
    """K follows the mean number of iterations per bin."""

    params: IterationsParams

    @property
    def schedule(self) -> ControlParams:
        """When it is asked."""
        return self.params

    def decide(self, view: ControlView) -> ControlDecision:
        """Decide K; see :class:`~fluxctl.policies.control.base.Controller`."""
        found = mean([commit.num_iterations for commit in view.commits])
        goal = view.goal
        if found is not None and found != self.params.target:
            goal += self.params.goal_step if found > self.params.target else -self.params.goal_step
        inputs = {"mean_iterations": found, "target": self.params.target}
        return self.params.bounded(view, goal, view.concurrency, inputs)
