"""Oort's guided selection for an asynchronous aggregator, with an evaluation hand.

The rules are Oort's (see ``oort``; Lai et al., OSDI 2021). Departures, both from the asynchronous use: the aggregator
tops up what is missing from its concurrency instead of over-committing; the clip is the 95th percentile (paper:
98th). On request a second hand, Felix's, asks clients whose utility is old to measure it again without training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from pydantic import Field

from fluxctl.policies.selectors.base import SELECTORS, Selection, SelectionView
from fluxctl.policies.selectors.evaluation import evaluation_hand, num_slots
from fluxctl.policies.selectors.oort import OortParams, guided_selection, initial_state
from fluxctl.types import ClientId
from fluxctl.world.seeds import Stream


class AsyncOortParams(OortParams):
    """What a preset may set; the defaults are the paper's unless said otherwise."""

    clip_percentile: float = Field(95.0, gt=0, le=100, description="utilities above this percentile count as it")
    eval_goal_factor: float = Field(
        0.0, ge=0, description="slots of tasks that only evaluate, as a multiple of the goal K; 0 = no evaluation hand"
    )
    eval_rest_rounds: int = Field(35, ge=0, description="selections for which a measured utility counts as fresh")


@SELECTORS.register("async_oort", AsyncOortParams)
@final
@dataclass(frozen=True, slots=True)
class AsyncOort:
    """Useful and fast clients first, with exploration and a pacer (Oort), for topping up an asynchronous cohort."""

    params: AsyncOortParams

    def initial_state(self) -> Mapping[str, float]:
        """See :func:`~fluxctl.policies.selectors.oort.initial_state`."""
        return initial_state(self.params)

    def select(self, view: SelectionView, num: int, stream: Stream, state: Mapping[str, float]) -> Selection:
        """Choose by utility and speed; see :class:`~fluxctl.policies.selectors.base.Selector`."""
        return guided_selection(self.params, view, num, stream, state)

    def num_evaluations(self, goal: int) -> int:
        """Evaluation slots; see :class:`~fluxctl.policies.selectors.base.EvaluatingSelector`."""
        return num_slots(self.params.eval_goal_factor, goal)

    def select_evaluations(self, view: SelectionView, num_in_flight: int, stream: Stream) -> tuple[ClientId, ...]:
        """Fill the evaluation slots; see :class:`~fluxctl.policies.selectors.base.EvaluatingSelector`."""
        num = self.num_evaluations(view.goal) - num_in_flight
        return evaluation_hand(view, num, self.params.eval_rest_rounds, stream)
