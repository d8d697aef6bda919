"""No control: K and C stay as configured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fluxctl.policies.control.base import CONTROLLERS, ControlDecision, ControlView
from fluxctl.registry import Params


@CONTROLLERS.register("off")
@final
@dataclass(frozen=True, slots=True)
class Off:
    """K and C stay as configured."""

    params: Params

    @property
    def schedule(self) -> None:
        """Never asked."""
        return

    def decide(self, view: ControlView) -> ControlDecision:
        """Change nothing; see :class:`~fluxctl.policies.control.base.Controller`."""
        return ControlDecision(view.goal, view.concurrency)
