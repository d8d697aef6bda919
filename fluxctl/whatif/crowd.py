"""How many clients can be reached, and how many seem to be, over engine time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.types import NS_PER_S, Ns
from fluxctl.world.availability.states import is_eligible
from fluxctl.world.flight import ClientWorld

_MOST_POINTS: Final = 2000
_LEAST_POINTS: Final = 50
_MOST_STATES: Final = 20_000_000  # clients times points
_LEAST_STEP_NS: Final[Ns] = NS_PER_S

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crowd:
    """Counts at equally spaced moments, shape ``(n,)`` each.

    Args:
        t_ns: The moments: middles of equal spans.
        reachable: Clients that can work.
        believed: Clients that the aggregator believes to be able to.
    """

    t_ns: Counts
    reachable: Counts
    believed: Counts

    def share_below(self, num: int) -> float:
        """Share of the time with fewer than ``num`` reachable clients."""
        return float(np.mean(self.reachable < num))


def crowd(world: ClientWorld, num_clients: int, until_ns: Ns) -> Crowd:
    """Count over ``[0, until_ns)``; fewer moments for larger populations."""
    wanted = min(_MOST_POINTS, max(_LEAST_POINTS, _MOST_STATES // num_clients))
    num = max(1, min(wanted, until_ns // _LEAST_STEP_NS))
    moments = np.array([(2 * index + 1) * until_ns // (2 * num) for index in range(num)], dtype=np.int64)
    if world.always_available:
        everyone = np.full(num, num_clients, dtype=np.int64)
        return Crowd(moments, everyone, everyone)
    reachable, believed = np.zeros(num, dtype=np.int64), np.zeros(num, dtype=np.int64)
    for index, t in enumerate(moments.tolist()):
        true_codes = world.trace.states(num_clients, t)
        codes = world.knowledge.believed_states(num_clients, t)
        reachable[index] = np.count_nonzero(is_eligible(true_codes, world.eligible))
        believed[index] = np.count_nonzero(is_eligible(codes, world.eligible))
    return Crowd(moments, reachable, believed)
