"""Whether both runs learn alike: accuracy (C1) and loss (C2), version by version.

A curve that has left the other stays away for a while, so its distances are no independent samples: the interval of
their mean, which is told beside it, comes from a block bootstrap.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, RungFunction, Status, Tier
from fluxctl.parity.stats import block_bootstrap_mean
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats, Ints

LONG_ENOUGH_S: Final = 2 * 3600.0


def convergence(path: str, limit: float) -> RungFunction:
    """The check of one test metric.

    Args:
        path: Field of ``agg_eval``.
        limit: Largest mean absolute difference that passes.
    """

    def check(left: Observed, right: Observed, options: Options) -> Finding:
        """Mean absolute difference over the versions that both runs have evaluated; LOW_CONF for short runs."""
        pair = windows(left, right, options)
        (versions_1, values_1), (versions_2, values_2) = (_curve(window, path) for window in pair)
        common, at_1, at_2 = np.intersect1d(versions_1, versions_2, return_indices=True)
        if not len(common):
            return skip("no version of the model was evaluated in both runs")
        gaps = np.abs(values_1[at_1] - values_2[at_2])
        low, high = block_bootstrap_mean(gaps)
        engine_s = min(window.end_ns for window in pair) / 1e9
        evidence = Evidence(
            len(common),
            len(common),
            f"{path} differs by {gaps.mean():.4g} on average ({low:.3g} to {high:.3g} with 95 % confidence) and "
            f"{gaps.max():.4g} at most, over {len(common)} versions and {engine_s:.4g} s of engine time",
            {
                "mean": float(gaps.mean()),
                "mean_interval": [low, high],
                "max": float(gaps.max()),
                "at_version": int(common[gaps.argmax()]),
            },
        )
        finding = judged_bounds([Bound("", float(gaps.mean()), limit)], evidence)
        is_short = finding.status is Status.PASS and engine_s < LONG_ENOUGH_S
        return replace(finding, status=Status.LOW_CONF) if is_short else finding

    return check


def _curve(window: Window, path: str) -> tuple[Ints, Floats]:
    """Versions up to the window's last commit, and the metric of each."""
    evaluations = window.run["agg_eval"]
    versions, values = evaluations.ints("version"), evaluations.numbers(path)
    kept = (versions >= 0) & (versions <= window.num_units) & np.isfinite(values)
    return versions[kept], values[kept]


for _id, _short, _name, _path, _limit, _what in (
    ("D72", "C1", "convergence", "test_accuracy", 0.05, "accuracy"),
    ("D73", "C2", "convergence_loss", "test_loss", 0.15, "loss"),
):
    rung(
        _id,
        _short,
        _name,
        stage="8",
        tier=Tier.DIST,
        role=Role.EMERGENT,
        question=f"Does the test {_what} go the same way, commit by commit?",
        broken=f"The simulation's {_what} curve is not the real one.",
        needs=("D67", "D70"),
    )(convergence(_path, _limit))
