"""Where two runs stop doing the same."""

from __future__ import annotations

import numpy as np

from fluxctl.parity.cohorts import describe_cycle, in_words, pair_cycles, same_contributors
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip, windows


@rung(
    "D60",
    "U1",
    "first_divergence",
    stage="6",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Up to which commit do both runs take the same updates in the same order?",
    broken="From this commit on the two runs aggregate other updates, or the same ones in another order.",
)
def first_divergence(left: Observed, right: Observed, options: Options) -> Finding:
    """Number of the first commit, from 0, with other contributors or another order, with context from both sides."""
    first, second = windows(left, right, options)
    pairing = pair_cycles(first, second)
    if not pairing.num_all:
        return skip("the runs have no completed bin in common")
    _, same_order = same_contributors(first.run, second.run, pairing)
    differing = np.flatnonzero(~same_order)
    if not len(differing):
        is_whole = len(pairing.first) == pairing.num_all
        message = f"no difference in {first.num_units} commits" if is_whole else "bins take other numbers of iterations"
        return Finding(Status.PASS if is_whole else Status.FAIL, None, "none", first.num_units, message)
    at = int(differing[0])
    sides = [(window.run, int(rows[at])) for window, rows in ((first, pairing.first), (second, pairing.second))]
    commit = int(first.run.unit_of_cycle[sides[0][1]])
    told = "; ".join(f"{run.label}: {in_words(describe_cycle(run, row))}" for run, row in sides)
    return Finding(
        Status.FAIL,
        float(commit),
        "none",
        first.num_units,
        f"first difference on the way to commit {commit + 1}: {told}",
        {run.label: describe_cycle(run, row) for run, row in sides},
    )
