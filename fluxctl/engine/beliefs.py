"""What the aggregator learns of clients, kept for its selector."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fluxctl.policies.selectors.base import ClientBeliefs, Forecast
from fluxctl.types import NS_PER_S, ClientId, Ns, s_from_ns
from fluxctl.world.flight import ClientWorld

#: How far back a client's availability is remembered: a day, the period of people's habits.
MEMORY_NS: Final[Ns] = 24 * 3600 * NS_PER_S
#: Forecasts are made again after this long; they move slowly, and each looks at every client.
FORECAST_EVERY_NS: Final[Ns] = 600 * NS_PER_S


class Beliefs:
    """Beliefs about every client.

    Args:
        num_clients: Size of the population, N.
        world: Where forecasts come from.
        forecasts: Which of them the selector reads; the others are not made.
        measures: Whether clients are also asked to evaluate only.
    """

    def __init__(
        self, num_clients: int, world: ClientWorld, forecasts: frozenset[Forecast] = frozenset(), *, measures: bool
    ) -> None:
        self._num_clients = num_clients
        self._world = world
        # Who is taken to be there at any time has no history to learn from.
        self._predicts = Forecast.AVAILABILITY in forecasts and not world.sees_everyone
        self._predicted_ns: Ns | None = None
        self.current = ClientBeliefs(
            utility=np.full(num_clients, np.nan),
            duration_s=np.full(num_clients, np.nan),
            last_round=np.zeros(num_clients, dtype=np.int64),
            num_selected=np.zeros(num_clients, dtype=np.int64),
            num_commits=np.zeros(num_clients, dtype=np.int64),
            modelled_duration_s=self._durations() if Forecast.DURATION in forecasts else None,
            last_evaluated=np.zeros(num_clients, dtype=np.int64) if measures else None,
        )

    def at(self, t: Ns) -> ClientBeliefs:
        """What is believed at logical time ``t``; times do not decrease."""
        if self._predicts and (self._predicted_ns is None or t >= self._predicted_ns + FORECAST_EVERY_NS):
            self._predicted_ns = t
            self.current = replace(self.current, availability=self._availability(t))
        return self.current

    def selected(self, clients: tuple[ClientId, ...]) -> None:
        """They are asked to train."""
        self.current.num_selected[np.array(clients, dtype=np.int64)] += 1

    def contributed(self, client: ClientId, utility: float, duration_ns: Ns, number: int) -> None:
        """An update of ``client`` is committed or kept, in selection round ``number``."""
        self.current.duration_s[client] = s_from_ns(duration_ns)
        self.current.last_round[client] = number
        self.current.num_commits[client] += 1
        self.measured(client, utility, number)

    def measured(self, client: ClientId, utility: float, number: int) -> None:
        """A utility of ``client`` has arrived in selection round ``number``."""
        self.current.utility[client] = utility
        if self.current.last_evaluated is not None:
            self.current.last_evaluated[client] = number

    def utility_of(self, client: ClientId) -> float:
        """Last known utility; nan = unknown."""
        return float(self.current.utility[client])

    def age_of(self, client: ClientId, number: int) -> int:
        """Selections since that utility arrived."""
        measured = self.current.last_round if self.current.last_evaluated is None else self.current.last_evaluated
        return number - int(measured[client])

    def _durations(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Modelled seconds of each client's task."""
        durations = self._world.delays.duration_ns
        return np.array([s_from_ns(durations(client)) for client in range(self._num_clients)])

    def _availability(self, t: Ns) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """Share of the last day, or of the time so far, in which each client could train.

        The history stands for the forecaster that REFL's clients run; what lies ahead is not looked at. None before
        there is any.
        """
        since = max(0, t - MEMORY_NS)
        if t <= since:
            return None
        available, eligible = self._world.trace.available_ns, self._world.eligible
        return np.array([available(client, since, t, eligible) for client in range(self._num_clients)]) / (t - since)
