"""Whether the same clients are chosen."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Evidence, judged_at_least
from fluxctl.parity.cohorts import chosen_by_cycle
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import skip, windows

LEAST: Final = 0.7


@rung(
    "D33",
    "S1",
    "selection",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are the same clients chosen, cycle by cycle?",
    broken="The two runs ask other clients, although they should have drawn the same ones.",
    is_gated=True,
)
def selection(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean Jaccard index of the sets chosen in each cycle; a cycle that only one run has counts 0."""
    first, second = (chosen_by_cycle(window) for window in windows(left, right, options))
    everywhere = first.keys() | second.keys()
    if not everywhere:
        return skip("the runs have no completed bin in common")
    indices = [
        _jaccard(first[place], second[place]) if place in first and place in second else 0.0 for place in everywhere
    ]
    mean = sum(indices) / len(indices)
    num_equal = sum(index == 1.0 for index in indices)
    evidence = Evidence(
        len(first), len(second), f"mean overlap {mean:.3g}; {num_equal} of {len(indices)} cycles chose the same set"
    )
    return judged_at_least(mean, LEAST, evidence)


def _jaccard(first: frozenset[int], second: frozenset[int]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 1.0
