"""Asking the selector: streams, its state, and cohorts that are kept over the iterations of a bin."""

from __future__ import annotations

from dataclasses import dataclass

from fluxctl.engine.beliefs import Beliefs
from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.messages import Work
from fluxctl.engine.roster import Eligible, Roster
from fluxctl.policies.selectors.base import EvaluatingSelector, Selection, SelectionView, Selector
from fluxctl.types import ClientId, Ns
from fluxctl.world.seeds import Stream, stream


@dataclass(frozen=True, slots=True)
class SelectionRecord:
    """A selection, with what it was made from.

    Attributes:
        eligible: Who could have been chosen.
        selection: Who was.
        requested: How many were wanted.
        kept: Whether all of them are the bin's cohort, asked again.
        in_flight: Slots in use before.
        concurrency: Slots at this moment: C, or those for evaluation.
        num_clients: Size of the population.
        work: What they are asked for.
    """

    eligible: Eligible
    selection: Selection
    requested: int
    kept: bool
    in_flight: int
    concurrency: int
    num_clients: int
    work: Work = Work.TRAIN


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
        beliefs: Beliefs,
        *,
        seed: int,
        num_clients: int,
        keeps_cohort: bool,
    ) -> None:
        self._selector = selector
        self._evaluator = selector if isinstance(selector, EvaluatingSelector) else None
        self._roster = roster
        self.beliefs = beliefs
        self._seed = seed
        self._num_clients = num_clients
        self._keeps_cohort = keeps_cohort
        self._state = selector.initial_state()
        self._kept: tuple[int, tuple[ClientId, ...]] = (-1, ())
        self._draws: dict[str, tuple[Triple, int]] = {}  # by purpose: for what the last one was, and its number
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
            fresh = self._ask(wanted - len(repeats), t, cadence, rest, concurrency, goal)
            selection, kept = Selection((*repeats, *fresh.chosen), fresh.state, fresh.detail), False
        return SelectionRecord(everyone, selection, wanted, kept, in_flight, concurrency, self._num_clients)

    def num_evaluations(self, goal: int) -> int:
        """Slots of tasks that only evaluate, at aggregation goal K."""
        return 0 if self._evaluator is None else self._evaluator.num_evaluations(goal)

    def select_evaluations(self, t: Ns, cadence: Cadence, *, in_flight: int, goal: int) -> SelectionRecord | None:
        """Choose clients to measure only, in slots of their own; None if the selector has no such hand, or no slot.

        Asked after each selection for training, whose number it shares.
        """
        slots = self.num_evaluations(goal)
        if self._evaluator is None or in_flight >= slots:
            return None
        eligible = self._roster.evaluable(t)
        view = self._view(t, self.num_selections, eligible, slots, goal)
        chosen = self._evaluator.select_evaluations(view, in_flight, self._stream("evaluation", cadence))
        selection = Selection(chosen, self._state, {})
        wanted = slots - in_flight
        return SelectionRecord(eligible, selection, wanted, False, in_flight, slots, self._num_clients, Work.EVALUATE)

    def _ask(self, num: int, t: Ns, cadence: Cadence, eligible: Eligible, concurrency: int, goal: int) -> Selection:
        view = self._view(t, self.num_selections + 1, eligible, concurrency, goal)
        fresh = self._selector.select(view, num, self._stream("selection", cadence), self._state)
        self.num_selections += 1
        self._state = fresh.state
        self.beliefs.selected(fresh.chosen)
        if self._keeps_cohort:
            kept = self._kept[1] if self._kept[0] == cadence.version else ()
            self._kept = (cadence.version, (*kept, *fresh.chosen))
        return fresh

    def _view(self, t: Ns, number: int, eligible: Eligible, concurrency: int, goal: int) -> SelectionView:
        return SelectionView(
            round=number,
            num_clients=self._num_clients,
            num_eligible=eligible.num,
            is_eligible=eligible.contains,
            eligible=eligible.ids,
            beliefs=self.beliefs.at(t),
            concurrency=concurrency,
            goal=goal,
        )

    def _stream(self, purpose: str, cadence: Cadence) -> Stream:
        """Randomness of the next choice for a purpose at this version and iteration."""
        triple, draws = self._draws.get(purpose, (None, -1))
        draws = draws + 1 if triple == cadence.triple else 0
        self._draws[purpose] = (cadence.triple, draws)
        return stream(self._seed, purpose, version=cadence.version, iteration=cadence.iteration, attempt=draws)

    def _kept_cohort(self, cadence: Cadence, eligible: Eligible) -> tuple[ClientId, ...]:
        """Members of the cohort that this bin began with, those that may be asked."""
        version, kept = self._kept
        return tuple(filter(eligible.contains, kept)) if version == cadence.version else ()
