"""Whether as many updates have been taken into cohorts at the same engine time."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.horizon import windows_at_equal_time
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import skip

MOST: Final = 0.05


@rung(
    "D71",
    "U2",
    "total_commits",
    stage="8",
    tier=Tier.EXACT,
    role=Role.EMERGENT,
    question="At the same engine time, have both runs used as many updates?",
    broken="The simulation learns from more or fewer updates in the same time, so its curves are shifted.",
    needs=("D11",),
    is_timed=True,
)
def total_commits(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative difference of the updates in the cohorts of complete bins, at the engine time both have reached."""
    if min(left.columns.last_ns, right.columns.last_ns) <= 0:
        return skip("a run has no engine time")
    pair = windows_at_equal_time(left, right, options)
    totals = [int(window.numbers("agg_round", "goal_count").sum()) for window in pair]
    evidence = Evidence(
        max(totals[0], 1), max(totals[1], 1), f"{totals[0]} and {totals[1]} updates used", {"updates": totals}
    )
    return judged_bounds([Bound("", relative(*totals), MOST)], evidence, min_samples=1)
