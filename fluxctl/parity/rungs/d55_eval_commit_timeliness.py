"""Whether evaluations come right after the commits that they are about.

The lag of an update is the time from when it is visible to its commit, and the lag of an evaluation the time from then
to the evaluation. Their difference is the time from a commit to the evaluation of its model.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats
from fluxctl.types import NS_PER_S

MOST_S: Final = 2.0


@rung(
    "D55",
    "U6e",
    "eval_commit_timeliness",
    stage="6",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Is the model evaluated right after the commit that made it?",
    broken="Evaluations lag behind commits: accuracies are shown against the wrong time.",
    is_timed=True,
)
def eval_commit_timeliness(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean engine seconds from a commit to its evaluation, in the worse of both runs."""
    pair = windows(left, right, options)
    lags = [_lags_s(window) for window in pair]
    if not any(map(len, lags)):
        return skip("no evaluation belongs to a commit")
    means_s = [float(lag.mean()) if len(lag) else 0.0 for lag in lags]
    evidence = Evidence.of(
        lags,
        f"an evaluation comes {max(means_s):.3g} s after its commit on average, in the worse run",
        {window.run.label: mean_s for window, mean_s in zip(pair, means_s, strict=True)},
    )
    return judged_bounds([Bound("", max(means_s), MOST_S)], evidence)


def _lags_s(window: Window) -> Floats:
    """Seconds from each commit of a window to the evaluation of its version."""
    evaluations, run = window.run["agg_eval"], window.run
    versions = evaluations.ints("version")
    commits_ns = run.cycles.ints("t_ns")[run.is_commit][: window.num_units]
    has_commit = (versions >= 1) & (versions <= window.num_units)
    return np.asarray((evaluations.ints("t_ns")[has_commit] - commits_ns[versions[has_commit] - 1]) / NS_PER_S)
