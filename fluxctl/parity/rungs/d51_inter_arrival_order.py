"""Whether updates reach the aggregator in the modelled order.

Commits follow the logical order on both clocks, so their order says nothing about the wall. This rung looks at the
order in which the wall delivered: it is what would have decided, had nobody waited for logically earlier updates. A
loaded machine can shuffle it without any fault of the engine, therefore it only warns.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Evidence, judged_at_least
from fluxctl.parity.cohorts import pair_cycles
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import spearman
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Ragged

LEAST: Final = 0.7


@rung(
    "D51",
    "U5",
    "inter_arrival_order",
    stage="5",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Do the updates of a cycle arrive in the same order on the wall as in the simulation?",
    broken="The wall delivered updates in another order than modelled: machine load decides what the model should.",
    needs=("D10", "D26"),
    is_timed=True,
)
def inter_arrival_order(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean rank correlation of the physical arrival orders of each cycle's common contributors."""
    first, second = windows(left, right, options)
    pairing = pair_cycles(first, second)
    lists_1, lists_2 = _arrivals(first), _arrivals(second)
    correlations = [
        correlation
        for row_1, row_2 in zip(pairing.first.tolist(), pairing.second.tolist(), strict=True)
        if (correlation := _correlation(lists_1[row_1].tolist(), lists_2[row_2].tolist())) is not None
    ]
    if not correlations:
        return skip("no cycle has two contributors in common, so there is no order to compare")
    mean = float(np.mean(correlations))
    num = len(correlations)
    evidence = Evidence(
        num,
        num,
        f"mean rank correlation {mean:.4g} over {num} cycles; {sum(c < 1 - 1e-9 for c in correlations)} cycles arrived "
        "in another order",
        {"worst": min(correlations)},
    )
    return judged_at_least(mean, LEAST, evidence, otherwise=Status.WARN)


def _arrivals(window: Window) -> Ragged:
    """Clients of each cycle in the order in which they arrived; in commit order where that was not recorded."""
    cycles = window.run.cycles
    return cycles.lists("wall.arrival_order" if "wall.arrival_order" in cycles else "contributing_trainers")


def _correlation(first: list[int], second: list[int]) -> float | None:
    """Rank correlation of two orders of the clients that are in both; None with fewer than two."""
    if first == second:
        return 1.0 if len(first) > 1 else None
    common = [client for client in first if client in second]
    return spearman(range(len(common)), [second.index(client) for client in common]) if len(common) > 1 else None
