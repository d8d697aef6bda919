"""A run as its launcher knows it: the latest of the engine's progress lines, and what follows from it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from fluxctl import wall
from fluxctl.commands._render import duration, number, rate
from fluxctl.commands._request import PlannedRun
from fluxctl.types import Mode

_MIN_FRACTION_FOR_ETA: Final = 0.02
_NUM_RECENT: Final = 240  # accuracies kept for a curve


@dataclass(frozen=True, slots=True)
class Binding:
    """The stop rule that will end a run first, as far as it can be foreseen.

    Args:
        rule: ``bins``, ``time`` (on the engine's clock) or ``wall`` (the wall ceiling).
        fraction: How far the run is by it, 0 to 1.
    """

    rule: str
    fraction: float


@dataclass
class RunState:
    """A run as last heard of."""

    run_id: str
    planned: PlannedRun
    max_wall_s: float
    started_s: float = field(default_factory=wall.monotonic_s)
    last: dict[str, Any] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    accuracies: deque[float] = field(default_factory=lambda: deque(maxlen=_NUM_RECENT))

    def hear(self, line: dict[str, Any]) -> bool:
        """Take over a progress line; whether it begins something new."""
        is_milestone = (line.get("phase"), line.get("what")) != (self.last.get("phase"), self.last.get("what"))
        bins, before = line.get("bins"), self.last.get("bins")
        accuracy = line.get("accuracy")
        if isinstance(accuracy, int | float) and (bins != before or not self.accuracies):
            self.accuracies.append(float(accuracy))
        self.last = line
        return is_milestone

    @property
    def name(self) -> str:
        """Short name for people."""
        config = self.planned.config
        return f"{config.label} {config.mode.value} seed {config.seed}"

    @property
    def phase(self) -> str:
        """``start``, ``prepare`` or ``train``."""
        return str(self.last.get("phase", "start"))

    @property
    def wall_s(self) -> float:
        """Wall seconds since the launch."""
        return wall.monotonic_s() - self.started_s

    @property
    def binding(self) -> Binding | None:
        """The stop rule that binds; None before training. Target and stall depend on what will be learned."""
        if self.phase != "train":
            return None
        config = self.planned.config
        found = [Binding("time", as_float(self.last.get("engine_s")) / config.runtime_budget_s())]
        if config.limits.max_bins is not None:
            found.append(Binding("bins", as_float(self.last.get("bins")) / config.limits.max_bins))
        found.append(Binding("wall", self.wall_s / self.max_wall_s))
        return max(found, key=lambda item: item.fraction)

    @property
    def fraction(self) -> float:
        """How far the run is by the stop rule that binds, or how far its preparation is, 0 to 1."""
        binding = self.binding
        if binding is not None:
            return min(1.0, binding.fraction)
        total = as_float(self.last.get("total"))
        return min(1.0, as_float(self.last.get("done")) / total) if total > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Wall seconds until the stop rule that binds ends the run, if nothing else does; None while unknown."""
        binding = self.binding
        if binding is None or binding.fraction < _MIN_FRACTION_FOR_ETA:
            return None
        # the wall ceiling counts the preparation, the other rules do not
        spent_s = self.wall_s if binding.rule == "wall" else as_float(self.last.get("wall_s"))
        return max(0.0, spent_s * (1 - binding.fraction) / binding.fraction) if spent_s > 0 else None

    @property
    def eta(self) -> str:
        """The estimate for people, with the rule that it rests on."""
        binding, left_s = self.binding, self.eta_s
        return "-" if binding is None or left_s is None else f"{duration(left_s)} by {binding.rule}"

    def warnings(self) -> list[str]:
        """Things to warn of that were not said yet."""
        found = {}
        if self.wall_s > 0.8 * self.max_wall_s:
            found["ceiling"] = f"80 % of the wall ceiling of {duration(self.max_wall_s)} is used up"
        pace = self.last.get("sim_rate")
        if self.planned.config.mode is Mode.SIM and isinstance(pace, int | float) and 0 < pace < 1 and self.wall_s > 30:
            found["slow"] = f"the simulation is slower than reality (sim rate {pace:.2f})"
        fresh = {key: text for key, text in found.items() if key not in self.warned}
        self.warned |= set(fresh)
        return list(fresh.values())

    def preparation(self) -> str:
        """What is being prepared, and how far it is."""
        what, total = str(self.last.get("what") or "starting"), number(self.last.get("total"))
        return f"{what} {number(self.last.get('done'))}/{total}" if total != "-" else what

    def measures(self) -> list[str]:
        """What has been reached, most important first."""
        limits, last = self.planned.config.limits, self.last
        return [
            f"bins {number(last.get('bins'))}" + (f"/{limits.max_bins}" if limits.max_bins is not None else ""),
            f"acc {number(last.get('accuracy'), '.3f')} (best {number(last.get('best_accuracy'), '.3f')})",
            f"engine {duration(as_float(last.get('engine_s')))}",
            f"x{rate(last.get('sim_rate'))}",
            f"in flight {number(last.get('in_flight'))}",
            f"wall {duration(self.wall_s)}",
        ]

    def describe(self) -> str:
        """One line."""
        if self.phase != "train":
            return self.preparation()
        return ", ".join([f"{100 * self.fraction:.0f} %", *self.measures(), f"ETA {self.eta}"])


def as_float(value: object) -> float:
    """A number of a progress line; 0 for what is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
