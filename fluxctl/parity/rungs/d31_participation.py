"""Whether fast, middling and slow clients contribute alike.

On the axis of bins the determinism gate does not apply to participation (D0f), so classes of speed are compared. On
the axis of rounds, and where both runs are deterministic, it is each client's number of contributions.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks, tvd
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats, Ints

MOST_TVD: Final = 0.15
MOST_KS: Final = 0.2
NUM_CLASSES: Final = 3


@rung(
    "D31",
    "S2",
    "participation",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Do fast, middling and slow clients have the same share in what was learned?",
    broken="The model of one run was trained by other clients: what it learned is not comparable.",
    needs=("D26", "D15", "D28"),
)
def participation(left: Observed, right: Observed, options: Options) -> Finding:
    """Distance between the shares of three classes of speed in all contributions; see the module for rounds."""
    pair = windows(left, right, options)
    if options.is_deterministic and not all(window.run.has_cadence for window in pair):
        first, second = _counts(*pair)
        return judged_ks(first, second, MOST_KS, "contributions of a client", step=1.0)
    speeds_s = [window.pooled("agg_round", "trainer_speed_s") for window in pair]
    if not all(map(len, speeds_s)):
        return skip("a run has no contribution within the bins that both completed")
    edges = np.quantile(_speed_of_clients(*pair), np.arange(1, NUM_CLASSES) / NUM_CLASSES)
    shares = [np.bincount(np.digitize(speed_s, edges), minlength=NUM_CLASSES) / len(speed_s) for speed_s in speeds_s]
    told = " and ".join("/".join(f"{share:.1%}" for share in run) for run in shares)
    evidence = Evidence.of(
        speeds_s,
        f"fast, middling and slow clients made {told} of the contributions",
        {window.run.label: share.tolist() for window, share in zip(pair, shares, strict=True)},
    )
    return judged_bounds([Bound("TVD", tvd(*shares), MOST_TVD)], evidence)


def _speed_of_clients(*pair: Window) -> Floats:
    """D of each client that contributed to either run, one number a client and run."""
    speeds_s = []
    for window in pair:
        clients = window.pooled("agg_round", "contributing_trainers")
        _, first = np.unique(clients, return_index=True)
        speeds_s.append(window.pooled("agg_round", "trainer_speed_s")[first])
    return np.concatenate(speeds_s)


def _counts(*pair: Window) -> tuple[Ints, Ints]:
    """Contributions of every client that contributed to either run."""
    clients = [window.pooled("agg_round", "contributing_trainers").astype(np.int64) for window in pair]
    everyone = np.unique(np.concatenate(clients))
    counts = [np.bincount(np.searchsorted(everyone, some), minlength=len(everyone)) for some in clients]
    return counts[0], counts[1]
