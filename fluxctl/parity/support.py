"""Judging whether what one run saw lies within what the other saw: the support of a distribution, not its shape."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.result import MIN_SAMPLES, Finding, Status
from fluxctl.parity.stats import ks
from fluxctl.telemetry.columns import Floats

MOST_P99: Final = 1.15  # of the reference's 99th percentile


def judged_support(reference: Floats, judged: Floats, what: str, *, warn_ks: float | None = None) -> Finding:
    """Judge that the tail of a sample is not longer than that of another.

    Args:
        reference: Values in seconds of the real run, shape ``(n,)``, finite.
        judged: Values in seconds of the simulated run, shape ``(m,)``, finite.
        what: What the values are, for the message.
        warn_ks: Largest distance of the distributions that does not warn; None = only the tail matters.
    """
    n = min(len(reference), len(judged))
    threshold = f"p99 <= {MOST_P99:g} x real"
    if n < MIN_SAMPLES:
        told = f"{what}: {n} samples, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    tails = [float(np.quantile(sample, 0.99)) for sample in (reference, judged)]
    ratio = tails[1] / tails[0] if tails[0] > 0 else (1.0 if tails[1] <= 0 else float("inf"))
    distance = ks(reference, judged)
    told = f"{what}: p99 {tails[0]:.4g} and {tails[1]:.4g} s, D = {distance.d:.3g} (p = {distance.p:.2g})"
    differs = warn_ks is not None and distance.d > warn_ks
    status = Status.FAIL if ratio > MOST_P99 else Status.WARN if differs else Status.PASS
    return Finding(
        status,
        ratio if np.isfinite(ratio) else None,
        threshold,
        n,
        told,
        {"p99_s": tails, "ks": distance.d, "p": distance.p},
    )
