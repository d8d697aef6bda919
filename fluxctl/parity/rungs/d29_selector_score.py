"""Whether a utility-guided selector scores the chosen clients alike."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import skip, windows

MOST: Final = 0.2
COMPONENTS: Final = ("score", "utility", "duration_s")


@rung(
    "D29",
    "Sx",
    "selector_score",
    stage="3",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Does the selector see the same scores, utilities and durations in the clients that it chooses?",
    broken="The selector's beliefs differ, so it has different reasons for its choices.",
    needs=("D15",),
)
def selector_score(left: Observed, right: Observed, options: Options) -> Finding:
    """The component of the scores whose distributions are furthest apart."""
    pair = windows(left, right, options)
    paths = [f"detail.{name}" for name in COMPONENTS if all(f"detail.{name}" in w.run["selection"] for w in pair)]
    if not paths:
        return skip("the selector keeps no scores: it is not guided by utility")
    findings = []
    for path in paths:
        first, second = (window.pooled("selection", path) for window in pair)
        findings.append(judged_ks(first, second, MOST, path.removeprefix("detail."), min_samples=1))
    return max(findings, key=lambda finding: -1.0 if finding.value is None else finding.value)
