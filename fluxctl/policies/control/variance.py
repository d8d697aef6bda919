"""More updates per cycle while the first iteration's variance misses the gate.

The variance of a mean falls with the number of updates: K grows until one cycle is about enough, and shrinks when the
gate is passed with room to spare. FluxTune's variance-based K.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import final

from pydantic import Field

from fluxctl.policies.control.base import CONTROLLERS, ControlDecision, ControlParams, ControlView, mean


class VarianceParams(ControlParams):
    """What a preset may set."""

    low_frac: float = Field(0.5, ge=0, lt=1, description="share of the gate's threshold below which K shrinks")
    goal_step: int = Field(2, ge=1, description="change of K per decision")


@CONTROLLERS.register("variance", VarianceParams)
@final
@dataclass(frozen=True, slots=True)
class Variance:
    """K follows the variance after the first iteration of a bin."""

    params: VarianceParams

    @property
    def schedule(self) -> ControlParams:
        """When it is asked."""
        return self.params

    def decide(self, view: ControlView) -> ControlDecision:
        """Decide K; see :class:`~fluxctl.policies.control.base.Controller`. Without a known variance K stays."""
        found = mean([nan if commit.first_variance is None else commit.first_variance for commit in view.commits])
        goal = view.goal
        if found is not None and found > view.var_threshold:
            goal += self.params.goal_step
        elif found is not None and found < self.params.low_frac * view.var_threshold:
            goal -= self.params.goal_step
        inputs = {"mean_first_variance": found, "var_threshold": view.var_threshold}
        return self.params.bounded(view, goal, view.concurrency, inputs)
