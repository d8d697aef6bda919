"""Clients that may be gone soon come first, and whoever has contributed rests.

Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023, arXiv:2111.01108: among the available
clients choose those that are least likely to be available in the next window, so that rarely available data is seen;
a client rests after its update, so that others get their turn. Accepting stale updates at a lower weight, the other
half of REFL, is the staleness policy's and the rate's part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fluxctl.policies.selectors.base import SELECTORS, ClientBeliefs, Forecast, Selection, SelectionView
from fluxctl.policies.selectors.ranking import lowest, smallest
from fluxctl.registry import Params
from fluxctl.world.seeds import Stream

_NO_STATE: Final[Mapping[str, float]] = {}


class ReflParams(Params):
    """What a preset may set."""

    rest_rounds: int = Field(50, ge=0, description="selections for which a client rests after its update arrived")


@SELECTORS.register("refl", ReflParams)
@final
@dataclass(frozen=True, slots=True)
class Refl:
    """The least likely to stay available first; clients rest after an update."""

    params: ReflParams
    reads: ClassVar[frozenset[Forecast]] = frozenset({Forecast.AVAILABILITY})

    def initial_state(self) -> Mapping[str, float]:
        """Nothing is remembered."""
        return _NO_STATE

    def select(
        self,
        view: SelectionView,
        num: int,
        stream: Stream,
        state: Mapping[str, float],  # noqa: ARG002 (part of the protocol)
    ) -> Selection:
        """Choose by availability; see :class:`~fluxctl.policies.selectors.base.Selector`. Ties are random.

        A population that is smaller than its rest needs would leave nobody to choose: then resting clients fill up,
        those whose update is oldest first. Linear in the number of clients, vectorised.
        """
        eligible, beliefs = view.eligible(), view.beliefs
        last = beliefs.last_round[eligible]
        is_resting = (last > 0) & (view.round - last <= self.params.rest_rounds)
        probability = probabilities(beliefs, eligible)
        rested, resting = eligible[~is_resting], last[is_resting]
        chosen = lowest(rested, probability[~is_resting], num, stream)
        num_resting = max(min(num, len(eligible)) - len(chosen), 0)
        tickets = stream.generator(draw=1).random(len(resting))
        filled = eligible[is_resting][smallest(resting, tickets, num_resting)]
        return Selection(
            (*chosen.tolist(), *filled.tolist()),
            detail={
                "availability": probabilities(beliefs, np.concatenate([chosen, filled])).tolist(),
                "num_resting": num_resting,
            },
        )


def probabilities(beliefs: ClientBeliefs, clients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability that each client is available in the next window; unknown counts as 1: there is no hurry."""
    if beliefs.availability is None:
        return np.ones(len(clients))
    known = beliefs.availability[clients]
    return np.where(np.isfinite(known), known, math.inf).clip(0.0, 1.0)
