"""Whether both runs have come equally far at the same engine time."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.horizon import windows_at_equal_time
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, skip

MOST: Final = 0.05


@rung(
    "D70",
    "K8",
    "terminal_state",
    stage="8",
    tier=Tier.EXACT,
    role=Role.EMERGENT,
    question="At the same engine time, have both runs committed as many bins, with as many clients taking part?",
    broken="The simulation is ahead of or behind the real run: its times to an accuracy are wrong.",
    needs=("D11", "D31"),
    is_timed=True,
)
def terminal_state(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative differences of committed bins and of clients that contributed, at the engine time both have reached."""
    until_s = min(left.columns.last_ns, right.columns.last_ns) / 1e9
    if until_s <= 0:
        return skip("a run has no engine time")
    pair = windows_at_equal_time(left, right, options)
    units = [window.num_units for window in pair]
    trainers = [_num_contributors(window) for window in pair]
    evidence = Evidence(
        max(units[0], 1),  # no bin at all is a finding here, and no lack of samples
        max(units[1], 1),
        f"{units[0]} and {units[1]} bins, {trainers[0]} and {trainers[1]} clients by {until_s:.4g} s of engine time",
        {"engine_s": until_s, "bins": units, "clients": trainers},
    )
    bounds = [Bound("bins rel", relative(*units), MOST), Bound("clients rel", relative(*trainers), MOST)]
    return judged_bounds(bounds, evidence, min_samples=1)


def _num_contributors(window: Window) -> int:
    return len(np.unique(window.pooled("agg_round", "contributing_trainers")))
