"""Clients in turn, by their number.

Yang et al., Scheduling Policies for Federated Learning in Wireless Networks, 2019, arXiv:1908.06287, compare it with
random and channel-aware scheduling. The first client is drawn, so that over seeds no number is favoured. While most
clients are eligible the turn is found by looking from one to the next, so that the cost does not depend on the size
of the population.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from fluxctl.policies.selectors.base import SELECTORS, Selection, SelectionView
from fluxctl.registry import Params
from fluxctl.types import ClientId
from fluxctl.world.seeds import Stream

_NOT_STARTED: Final = -1.0
_PATIENCE: Final = 4  # looks per client wanted, before the list of the eligible is cheaper


@SELECTORS.register("round_robin")
@final
@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Each eligible client in turn, by its number."""

    params: Params

    def initial_state(self) -> Mapping[str, float]:
        """The client whose turn it is; not drawn yet."""
        return {"next": _NOT_STARTED}

    def select(self, view: SelectionView, num: int, stream: Stream, state: Mapping[str, float]) -> Selection:
        """Choose those whose turn is next; see :class:`~fluxctl.policies.selectors.base.Selector`."""
        num = min(num, view.num_eligible)
        if num == 0:
            return Selection((), dict(state))
        start = int(state["next"])
        if not 0 <= start < view.num_clients:
            start = int(stream.generator().integers(view.num_clients))
        chosen = _by_looking(view, num, start)
        if len(chosen) < num:
            eligible = view.eligible()
            turn = np.searchsorted(eligible, start) + np.arange(num)
            chosen = eligible.take(turn, mode="wrap").tolist()
        return Selection(tuple(chosen), {"next": float((chosen[-1] + 1) % view.num_clients)})


def _by_looking(view: SelectionView, num: int, start: ClientId) -> list[ClientId]:
    """Up to ``num`` eligible clients from ``start`` on, as far as a few looks for each of them reach."""
    chosen: list[ClientId] = []
    for offset in range(min(_PATIENCE * (num + _PATIENCE), view.num_clients)):
        client = (start + offset) % view.num_clients
        if view.is_eligible(client):
            chosen.append(client)
            if len(chosen) == num:
                break
    return chosen
