"""Uniform selection without replacement.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
arXiv:1602.05629; also what FwdLLM's scripts do. While most clients are eligible, ids are drawn and those that are
busy are drawn again, so that the cost depends on the number asked for and not on the size of the population.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from fluxctl.errors import InvariantError
from fluxctl.policies.selectors.base import SELECTORS, Selection, SelectionView
from fluxctl.registry import Params
from fluxctl.types import ClientId
from fluxctl.world.seeds import Stream

_NO_STATE: Final[Mapping[str, float]] = {}
_MAX_BATCHES: Final = 256  # a batch of at least two draws that hit with p >= 1/4: never needed by an honest view


@SELECTORS.register("random")
@final
@dataclass(frozen=True, slots=True)
class Random:
    """Every eligible client is equally likely."""

    params: Params

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
        """Choose uniformly among the eligible; see :class:`Selector`."""
        num = min(num, view.num_eligible)
        # At least a quarter of all draws hit while half the clients are eligible and at most half of those are wanted.
        if 2 * view.num_eligible >= view.num_clients and 2 * num <= view.num_eligible:
            return Selection(_by_rejection(view, num, stream.generator()))
        chosen = stream.generator().choice(view.eligible(), size=num, replace=False)
        return Selection(tuple(chosen.tolist()))


def _by_rejection(view: SelectionView, num: int, generator: np.random.Generator) -> tuple[ClientId, ...]:
    """Draw ids until ``num`` distinct eligible ones are found; uniform, because each draw is.

    Raises:
        InvariantError: If the view promises more eligible clients than there are.
    """
    chosen: dict[ClientId, None] = {}
    for _ in range(_MAX_BATCHES):
        for client in generator.integers(view.num_clients, size=2 * (num - len(chosen))).tolist():
            if len(chosen) < num and client not in chosen and view.is_eligible(client):
                chosen[client] = None
        if len(chosen) == num:
            return tuple(chosen)
    raise InvariantError(f"{view.num_eligible} of {view.num_clients} clients should be eligible; found {len(chosen)}")
