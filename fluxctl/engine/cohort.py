"""Asking the selector: streams, its state, and cohorts that are kept over the iterations of a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.roster import Eligible, Roster
from fluxctl.policies.selectors.base import ClientBeliefs, Selection, SelectionView, Selector
from fluxctl.types import ClientId, Ns
from fluxctl.world.seeds import stream


@dataclass(frozen=True, slots=True)
class SelectionRecord:
    """A selection, with what it was made from.

    Attributes:
        eligible: Who could have been chosen.
        selection: Who was.
        requested: How many were wanted.
        kept: Whether all of them are the bin's cohort, asked again.
        in_flight: Slots in use before.
        concurrency: C at this moment.
        num_clients: Size of the population.
    """

    eligible: Eligible
    selection: Selection
    requested: int
    kept: bool
    in_flight: int
    concurrency: int
    num_clients: int


class CohortSelector:
    """Chooses clients for free slots.

    Args:
        selector: The policy.
        roster: Who may be chosen.
        beliefs: What the aggregator knows of each client.
        seed: The run's seed.
        num_clients: Size of the population, N.
        keeps_cohort: Ask the same clients for all iterations of a bin.
    """

    def __init__(
        self,
        selector: Selector,
        roster: Roster,
        beliefs: ClientBeliefs,
        *,
        seed: int,
        num_clients: int,
        keeps_cohort: bool,
    ) -> None:
        self._selector = selector
        self._roster = roster
        self.beliefs = beliefs
        self._seed = seed
        self._num_clients = num_clients
        self._keeps_cohort = keeps_cohort
        self._state = selector.initial_state()
        self._kept: tuple[int, tuple[ClientId, ...]] = (-1, ())
        self._draws: tuple[Triple, int] | None = None
        self.num_selections = 0

    def select(
        self, wanted: int, t: Ns, cadence: Cadence, *, in_flight: int, concurrency: int, goal: int
    ) -> SelectionRecord:
        """Choose up to ``wanted`` clients at logical time ``t``."""
        everyone = self._roster.eligible(t, cadence.triple)
        repeats = self._kept_cohort(cadence, everyone)[:wanted]
        selection, kept = Selection(repeats, self._state, {}), True
        if len(repeats) < wanted:
            rest = self._roster.eligible(t, cadence.triple, repeats) if repeats else everyone
            fresh = self._ask(wanted - len(repeats), cadence, rest, concurrency, goal)
            selection, kept = Selection((*repeats, *fresh.chosen), fresh.state, fresh.detail), False
        return SelectionRecord(everyone, selection, wanted, kept, in_flight, concurrency, self._num_clients)

    def _ask(self, num: int, cadence: Cadence, eligible: Eligible, concurrency: int, goal: int) -> Selection:
        draws = self._draws[1] + 1 if self._draws is not None and self._draws[0] == cadence.triple else 0
        self._draws = (cadence.triple, draws)
        source = stream(self._seed, "selection", version=cadence.version, iteration=cadence.iteration, attempt=draws)
        view = SelectionView(
            round=self.num_selections + 1,
            num_clients=self._num_clients,
            num_eligible=eligible.num,
            is_eligible=eligible.contains,
            eligible=eligible.ids,
            beliefs=self.beliefs,
            concurrency=concurrency,
            goal=goal,
        )
        fresh = self._selector.select(view, num, source, self._state)
        self.num_selections += 1
        self._state = fresh.state
        self.beliefs.num_selected[np.array(fresh.chosen, dtype=np.int64)] += 1
        if self._keeps_cohort:
            kept = self._kept[1] if self._kept[0] == cadence.version else ()
            self._kept = (cadence.version, (*kept, *fresh.chosen))
        return fresh

    def _kept_cohort(self, cadence: Cadence, eligible: Eligible) -> tuple[ClientId, ...]:
        """Members of the cohort that this bin began with, those that may be asked."""
        version, kept = self._kept
        return tuple(filter(eligible.contains, kept)) if version == cadence.version else ()
