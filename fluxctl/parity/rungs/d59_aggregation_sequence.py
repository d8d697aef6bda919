"""Whether the same clients form each cohort."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Evidence, judged_at_least
from fluxctl.parity.cohorts import pair_cycles, same_contributors
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import skip, windows

LEAST: Final = 1.0


@rung(
    "D59",
    "P1",
    "aggregation_sequence",
    stage="6",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Do the same clients contribute to each cycle?",
    broken="Other clients' updates were aggregated, although both runs should have made the same decisions.",
    is_gated=True,
)
def aggregation_sequence(left: Observed, right: Observed, options: Options) -> Finding:
    """Share of cycles whose contributors are the same set."""
    first, second = windows(left, right, options)
    pairing = pair_cycles(first, second)
    if not pairing.num_all:
        return skip("the runs have no completed bin in common")
    same_set, _ = same_contributors(first.run, second.run, pairing)
    share = float(same_set.sum()) / pairing.num_all
    evidence = Evidence(
        int(first.in_cycle.sum()),
        int(second.in_cycle.sum()),
        f"{int(same_set.sum())} of {pairing.num_all} cycles have the same contributors",
    )
    return judged_at_least(share, LEAST, evidence)
