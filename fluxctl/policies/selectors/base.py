"""What a selector sees and what it answers.

A selector chooses among idle, reachable clients; it cannot see the others, so it cannot dispatch a client twice. What
it has to remember from one call to the next travels through :attr:`Selection.state`, so that a selector holds no
state of its own and a checkpoint is complete without asking it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fluxctl.registry import Registry
from fluxctl.types import JSON, ClientId
from fluxctl.world.seeds import Stream


@dataclass(frozen=True, slots=True)
class ClientBeliefs:
    """What the aggregator has learned of each client from its updates; every array has shape ``(num_clients,)``.

    Attributes:
        utility: Last reported statistical utility, float64; nan = unknown.
        duration_s: Last observed seconds from dispatch to due time, float64; nan = unknown.
        last_round: Selection round at which the client's last update arrived, int64; 0 = never.
        num_selected: Times it was dispatched, int64.
        num_commits: Updates of it that were committed, int64.
        modelled_duration_s: Seconds that a task of it should take, where that is known beforehand, float64; nan =
            unknown. None = of nobody.
        availability: Probability in [0, 1] that it can be reached in the next window, float64; nan = unknown. None =
            of nobody.
        last_evaluated: Selection round at which its utility was last measured, by an update or by a task that only
            evaluates, int64; 0 = never. None = by updates only, see ``last_round``.
    """

    utility: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    last_round: NDArray[np.int64]
    num_selected: NDArray[np.int64]
    num_commits: NDArray[np.int64]
    modelled_duration_s: NDArray[np.float64] | None = None
    availability: NDArray[np.float64] | None = None
    last_evaluated: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class SelectionView:
    """The situation at one selection.

    Attributes:
        round: Index of this selection, from 1.
        num_clients: Clients in the population, available or not.
        num_eligible: Clients that may be chosen now.
        is_eligible: Whether a client may be chosen now; constant time.
        eligible: Their ids, sorted; linear time, so a selector that can do without does not call it.
        beliefs: What is known of each client.
        concurrency: Most clients in flight.
        goal: Updates per commit.
    """

    round: int
    num_clients: int
    num_eligible: int
    is_eligible: Callable[[ClientId], bool]
    eligible: Callable[[], NDArray[np.int64]]
    beliefs: ClientBeliefs
    concurrency: int
    goal: int


@dataclass(frozen=True, slots=True)
class Selection:
    """A selector's answer.

    Attributes:
        chosen: Distinct eligible clients, at most as many as were asked for, in the order of choice.
        state: To be handed to the next call; finite numbers only.
        detail: What explains the choice, for the selection event; lists run parallel to ``chosen``.
    """

    chosen: tuple[ClientId, ...]
    state: Mapping[str, float] = field(default_factory=dict)
    detail: Mapping[str, JSON] = field(default_factory=dict)


class Selector(Protocol):
    """Chooses clients."""

    def initial_state(self) -> Mapping[str, float]:
        """The state before the first selection."""
        ...

    def select(self, view: SelectionView, num: int, stream: Stream, state: Mapping[str, float]) -> Selection:
        """Choose up to ``num`` clients.

        Args:
            view: The situation.
            num: Most clients to choose, at least 0; fewer are returned only if fewer are eligible.
            stream: Randomness of this selection; the same stream and view give the same answer.
            state: What the previous call returned, or :meth:`initial_state`.
        """
        ...


class Forecast(StrEnum):
    """What a selector may want to know beforehand."""

    DURATION = "modelled_duration_s"
    AVAILABILITY = "availability"


@runtime_checkable
class ForecastReader(Protocol):
    """A selector that reads forecasts; the others are not charged for making them."""

    reads: ClassVar[frozenset[Forecast]]


@runtime_checkable
class EvaluatingSelector(Protocol):
    """A selector that also asks clients to measure the model without training it, in slots of their own."""

    def num_evaluations(self, goal: int) -> int:
        """Evaluation slots at aggregation goal K; 0 = it does not ask."""
        ...

    def select_evaluations(self, view: SelectionView, num_in_flight: int, stream: Stream) -> tuple[ClientId, ...]:
        """Choose clients for tasks that only evaluate.

        Args:
            view: The situation; eligible are the idle clients that can be reached for an evaluation.
            num_in_flight: Evaluations that are under way.
            stream: Randomness of this choice.

        Returns:
            Distinct eligible clients, in the order of choice; empty when every slot is taken or nobody is due.
        """
        ...


SELECTORS: Final[Registry[Selector]] = Registry("selector")
