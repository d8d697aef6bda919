"""How long the aggregator waits for silent clients before it gives them up."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip

BOUNDARY: Final = "boundary"  # evicted because the update was due and the client known to be away, however young
DEFAULT_AFTER_S: Final = 90.0
WALL_LEAK_S: Final = 1e7  # four months: an age like this was taken from a calendar clock


@rung(
    "D23",
    "abandon_timeout",
    "abandon_timeout",
    stage="2",
    tier=Tier.INV,
    role=Role.CONTROL,
    question="Are silent clients given up after the agreed time on the engine's clock, neither before nor much later?",
    broken="Clients are given up by the wrong clock, so the simulation drops updates that reality would wait for.",
    needs=("D16",),
)
def abandon_timeout(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Ages of given-up flights: silent ones at least the timeout, all below any time that only a wall clock shows."""
    fired = [run for run in (left, right) if len(run["abandon"])]
    if not fired:
        return skip("no client was given up in either run")
    num_bad, num_silent, num_boundary, youngest = 0, 0, 0, np.inf
    for run in fired:
        ages_s = run["abandon"].numbers("age_s")
        is_boundary = run["abandon"].labels("reason").equals(BOUNDARY)
        after_s = DEFAULT_AFTER_S if run.config is None else run.config.engine.abandon_after_s
        is_early = ~is_boundary & ~(ages_s >= after_s - 1e-6)  # nan is early
        num_bad += int((is_early | ~(ages_s < WALL_LEAK_S)).sum())
        num_silent += int((~is_boundary).sum())
        num_boundary += int(is_boundary.sum())
        youngest = min(youngest, float(np.min(ages_s[~is_boundary], initial=np.inf)))
    return Finding(
        Status.FAIL if num_bad else Status.PASS,
        float(num_bad),
        f"silent ones after the timeout ({DEFAULT_AFTER_S:g} s by default), all under {WALL_LEAK_S:g} s",
        num_silent + num_boundary,
        f"{num_silent} silent clients given up, {num_bad} of all at a wrong age; {num_boundary} evicted when due",
        {
            "youngest_silent_s": youngest if np.isfinite(youngest) else None,
            "num_silent": num_silent,
            "num_boundary": num_boundary,
        },
    )
