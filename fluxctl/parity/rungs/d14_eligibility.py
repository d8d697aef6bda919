"""How many clients could be asked when the aggregator selected, and out of how many."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import judged_ks, relative
from fluxctl.parity.window import windows
from fluxctl.telemetry.columns import Floats

MOST_KS: Final = 0.2
ALIKE_MEANS: Final = 0.02  # means this close, of samples that hardly vary, are one number
ALIKE_SPREAD: Final = 0.01  # coefficient of variation below which a sample hardly varies
FIELDS: Final = ("num_eligible", "num_candidates")


@rung(
    "D14",
    "A2",
    "eligibility",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Does the aggregator choose from as many clients in both runs?",
    broken="One run can choose from more clients than the other, so its choices are not comparable.",
    needs=("D13",),
)
def eligibility(left: Observed, right: Observed, options: Options) -> Finding:
    """KS distance of the numbers of eligible clients and of candidates per selection; the worse of both."""
    real, sim = windows(left, right, options)
    findings = []
    for field in FIELDS:
        samples = [window.numbers("selection", field) for window in (real, sim)]
        finding = judged_ks(samples[0], samples[1], MOST_KS, f"{field} per selection")
        if finding.status is Status.FAIL and _is_one_number(samples[0], samples[1]):
            told = f"{finding.message}; both hardly vary and their means agree"
            finding = Finding(Status.PASS, finding.value, finding.threshold, finding.n, told, finding.detail)
        findings.append(finding)
    severity = (Status.PASS, Status.SKIP, Status.INCONCLUSIVE, Status.FAIL)
    return max(findings, key=lambda finding: (severity.index(finding.status), finding.value or 0.0))


def _is_one_number(left: Floats, right: Floats) -> bool:
    means = float(left.mean()), float(right.mean())
    spreads = [float(np.std(sample)) / mean if mean else 0.0 for sample, mean in zip((left, right), means, strict=True)]
    return relative(*means) <= ALIKE_MEANS and max(spreads) < ALIKE_SPREAD
