"""What a controller sees of a run's recent commits and what it answers.

A controller moves the aggregation goal K and the concurrency C while a run goes on. It is asked at commits, looks at
a window of them, and holds no state of its own: :func:`advance` is the whole loop as a fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from fluxctl.registry import Params, Registry
from fluxctl.types import JSON

#: Commits that a window must hold before anything is decided: means of fewer follow single bins.
MIN_WINDOW: Final = 6


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One committed bin.

    Attributes:
        num_iterations: Iterations that it took, from 1.
        first_variance: Split-half variance at the end of its first iteration; None or not finite = unknown.
        num_eligible: Mean over its cycles of the clients that could be reached, idle or in flight. Without those in
            flight a higher C would lower the count that C follows.
        staleness: Mean staleness of its updates in versions.
    """

    num_iterations: int
    first_variance: float | None
    num_eligible: float
    staleness: float


@dataclass(frozen=True, slots=True)
class ControlView:
    """The situation at a decision.

    Attributes:
        commits: The latest commits, oldest first, as many as the controller's window holds; never empty.
        goal: K now.
        concurrency: C now.
        num_clients: Clients in the population.
        var_threshold: Bound of the variance gate.
    """

    commits: tuple[CommitRecord, ...]
    goal: int
    concurrency: int
    num_clients: int
    var_threshold: float


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """A controller's answer.

    Attributes:
        goal: K from now on; at least 1, at most ``concurrency``.
        concurrency: C from now on; at most the number of clients.
        inputs: What it was decided from, for the event.
    """

    goal: int
    concurrency: int
    inputs: Mapping[str, JSON] = field(default_factory=dict)


class ControlParams(Params):
    """What a preset may set for every controller."""

    update_every: int = Field(10, ge=1, description="commits between decisions")
    window: int = Field(10, ge=MIN_WINDOW, le=20, description="latest commits that a decision looks at")
    goal_min: int = Field(5, ge=1, description="least aggregation goal K")
    goal_max: int = Field(15, ge=1, description="largest aggregation goal K")
    concurrency_min: int = Field(5, ge=1, description="least concurrency C")
    concurrency_max: int | None = Field(None, ge=1, description="largest concurrency C; null = the number of clients")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.goal_min > self.goal_max:
            raise ValueError(f"goal_min ({self.goal_min}) must not exceed goal_max ({self.goal_max})")
        if self.concurrency_max is not None and self.concurrency_min > self.concurrency_max:
            raise ValueError(
                f"concurrency_min ({self.concurrency_min}) must not exceed concurrency_max ({self.concurrency_max})"
            )
        return self

    def bounded(self, view: ControlView, goal: int, concurrency: int, inputs: Mapping[str, JSON]) -> ControlDecision:
        """The decision nearest to what is wanted.

        Where bounds contradict each other, C is at most the number of clients and K at most C, whatever the rest says.
        """
        most = view.num_clients if self.concurrency_max is None else min(self.concurrency_max, view.num_clients)
        concurrency = min(max(concurrency, self.concurrency_min), most)
        goal = min(max(goal, self.goal_min), self.goal_max, concurrency)
        return ControlDecision(goal, concurrency, inputs)


class Controller(Protocol):
    """Moves K and C."""

    @property
    def schedule(self) -> ControlParams | None:
        """When it is asked and how far back it looks; None = never."""
        ...

    def decide(self, view: ControlView) -> ControlDecision:
        """Decide K and C from the commits of a window."""
        ...


CONTROLLERS: Final[Registry[Controller]] = Registry("controller")


@dataclass(frozen=True, slots=True)
class ControlState:
    """Where the control of a run stands; of constant size.

    Attributes:
        goal: K now.
        concurrency: C now.
        num_commits: Commits seen.
        commits: The latest of them, at most a window.
    """

    goal: int
    concurrency: int
    num_commits: int = 0
    commits: tuple[CommitRecord, ...] = ()


def advance(
    controller: Controller, state: ControlState, record: CommitRecord, *, num_clients: int, var_threshold: float
) -> tuple[ControlState, ControlDecision | None]:
    """Take in a commit and decide when it is time.

    Args:
        controller: Who decides.
        state: What the previous call returned.
        record: The bin just committed.
        num_clients: Clients in the population.
        var_threshold: Bound of the variance gate.

    Returns:
        The state after it and the decision, which is None between decisions. A decision that changes nothing is one.
    """
    schedule = controller.schedule
    if schedule is None:
        return state, None
    commits = (*state.commits, record)[-schedule.window :]
    state = replace(state, num_commits=state.num_commits + 1, commits=commits)
    if state.num_commits % schedule.update_every or len(commits) < MIN_WINDOW:
        return state, None
    decision = controller.decide(ControlView(commits, state.goal, state.concurrency, num_clients, var_threshold))
    return replace(state, goal=decision.goal, concurrency=decision.concurrency), decision


def mean(values: list[float]) -> float | None:
    """Mean of the finite values; None if there are none."""
    known = np.array(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else None
