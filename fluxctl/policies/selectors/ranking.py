"""The best few of many, in linear time: a full sort of a million candidates would dominate a selection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluxctl.world.seeds import Stream


def smallest(keys: NDArray[np.float64] | NDArray[np.int64], ties: NDArray[np.float64], num: int) -> NDArray[np.int64]:
    """Positions of the ``num`` smallest keys, ascending.

    Args:
        keys: What to rank by, shape ``(n,)``; may hold infinities, no nan.
        ties: Decides among equal keys, the smaller one first, shape ``(n,)``.
        num: How many; all of them if there are fewer.

    Returns:
        Shape ``(min(num, n),)``, int64.
    """
    num = min(num, len(keys))
    if num == 0:
        return np.empty(0, dtype=np.int64)
    last = keys.min()
    level = np.flatnonzero(keys == last)
    if len(level) < num:  # many equal integers, as in counts of rare events, would take partition 20 times as long
        last = np.partition(keys, num - 1)[num - 1]
        level = np.flatnonzero(keys == last)
    below = np.flatnonzero(keys < last)
    num_level = num - len(below)
    if num_level < len(level):
        level = level[np.argpartition(ties[level], num_level - 1)[:num_level]]
    best = np.concatenate([below, level])
    return best[np.lexsort((ties[best], keys[best]))]


def lowest(
    clients: NDArray[np.int64], keys: NDArray[np.float64] | NDArray[np.int64], num: int, stream: Stream
) -> NDArray[np.int64]:
    """The ``num`` clients with the smallest keys, ascending; equal ones in random order.

    Args:
        clients: Candidates, shape ``(n,)``.
        keys: One for each candidate, in the same order, shape ``(n,)``.
        num: How many; all of them if there are fewer.
        stream: Breaks ties; the same stream gives the same order.

    Returns:
        Client ids, shape ``(min(num, n),)``, int64.
    """
    return clients[smallest(keys, stream.generator().random(len(clients)), num)]
