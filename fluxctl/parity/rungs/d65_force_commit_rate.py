"""Whether as many bins end for another reason than the gate."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.cohorts import is_forced
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import skip, windows

MOST: Final = 0.05


@rung(
    "D65",
    "V4",
    "force_commit_rate",
    stage="6p",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is the same share of bins committed because of a cap or a plateau?",
    broken="Stopping rules of bins fire more or less often, so more or fewer poor aggregates are applied.",
    needs=("D62",),
)
def force_commit_rate(left: Observed, right: Observed, options: Options) -> Finding:
    """Difference of the shares of commits whose reason is not the gate."""
    if not (left.has_cadence and right.has_cadence):
        return skip("the events carry no cadence: no bins, or no reasons of commits")
    pair = windows(left, right, options)
    forced = [is_forced(window.run)[window.run.is_commit][: window.num_units] for window in pair]
    if not pair[0].num_units:
        return skip("the runs have no commit in common")
    shares = [float(some.mean()) for some in forced]
    evidence = Evidence.of(forced, f"{shares[0]:.1%} and {shares[1]:.1%} of the commits were forced")
    return judged_bounds([Bound("", abs(shares[0] - shares[1]), MOST)], evidence)
