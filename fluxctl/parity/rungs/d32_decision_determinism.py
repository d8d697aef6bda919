"""Whether the selector was asked the same question, and gave the same answer."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Labels, Ragged

LEAST: Final = 0.98


@rung(
    "D32",
    "Sdet",
    "decision_determinism",
    stage="3",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="Given the same clients to choose from, does the selector choose the same ones?",
    broken="Either the two runs saw different clients to choose from, or the selector's random draws differ.",
)
def decision_determinism(left: Observed, right: Observed, options: Options) -> Finding:
    """Shares of selections with equal eligible sets, equal decisions and equal choices, selection by selection."""
    first, second = windows(left, right, options)
    num = max(int(first.selections().sum()), int(second.selections().sum()))
    if not num:
        return skip("no selection was made within the bins that both runs completed")
    eligible, decision = (
        _same_words(first, second, path) / num for path in ("eligible_fingerprint", "decision_fingerprint")
    )
    chosen = _same_lists(first, second, "chosen") / num
    worst = min(eligible, decision, chosen)
    verdict = "SEEDED-OK" if worst >= LEAST else "RNG-DESYNC" if eligible >= LEAST else "INPUT-DIVERGENCE"
    return Finding(
        Status.PASS if worst >= LEAST else Status.FAIL,
        worst,
        f">= {LEAST:g}",
        num,
        f"{verdict}: {eligible:.1%} of the selections had the same clients to choose from, {decision:.1%} chose the "
        f"same set, {chosen:.1%} in the same order",
        {"verdict": verdict, "eligible": eligible, "decision": decision, "chosen": chosen},
    )


def _words(window: Window, path: str) -> list[str]:
    labels: Labels = window.run["selection"].labels(path)
    return [labels.names[code] if code >= 0 else "" for code in labels.codes[window.selections()].tolist()]


def _same_words(first: Window, second: Window, path: str) -> int:
    pairs = zip(_words(first, path), _words(second, path), strict=False)
    return sum(word_1 == word_2 for word_1, word_2 in pairs)


def _same_lists(first: Window, second: Window, path: str) -> int:
    rows = zip(*(np.flatnonzero(window.selections()).tolist() for window in (first, second)), strict=False)
    lists_1: Ragged = first.run["selection"].lists(path)
    lists_2: Ragged = second.run["selection"].lists(path)
    return sum(np.array_equal(lists_1[row_1], lists_2[row_2]) for row_1, row_2 in rows)
