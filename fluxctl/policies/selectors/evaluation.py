"""The evaluation hand: keep what is known of clients' utilities fresh without training on them.

A guided selector acts on utilities that age while their clients are not chosen. Felix sends some of these clients the
model in slots of their own; they return loss and utility, and no update.
"""

from __future__ import annotations

import math

import numpy as np

from fluxctl.policies.selectors.base import SelectionView
from fluxctl.policies.selectors.ranking import lowest
from fluxctl.types import ClientId
from fluxctl.world.seeds import Stream


def num_slots(factor: float, goal: int) -> int:
    """``factor x K`` evaluation slots, rounded down."""
    return math.floor(factor * goal + 1e-9)  # 0.29 * 100 is 28.999999999999996


def evaluation_hand(view: SelectionView, num: int, rest_rounds: int, stream: Stream) -> tuple[ClientId, ...]:
    """Choose clients whose utility is known but old, the oldest first.

    Args:
        view: The situation; eligible are the idle clients that can be reached for an evaluation.
        num: Most clients to choose; not positive = none.
        rest_rounds: Clients that were measured in this many selections before the present one are left alone.
        stream: Breaks ties.

    Returns:
        Distinct eligible clients, fewer than ``num`` if fewer are due. Linear in the number of clients.
    """
    if num <= 0:
        return ()
    beliefs, eligible = view.beliefs, view.eligible()
    measured = beliefs.last_round if beliefs.last_evaluated is None else beliefs.last_evaluated
    last = measured[eligible]
    is_due = (last > 0) & (view.round - last > rest_rounds)
    due = np.flatnonzero(is_due)
    return tuple(lowest(eligible[due], last[due], num, stream).tolist())
