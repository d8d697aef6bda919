"""DIVERGED: the model broke, and going on would only spend time.

Three signs: weights or loss that are not finite; a loss beyond ten times the first one; a model that had learned and
now, twice in a row, predicts a single class far below its best. The last one is what undamped steps on a
high-variance estimate end in. A model that never rose above chance may predict one class: every untrained head does.
"""

from __future__ import annotations

import math
from typing import Final

from fluxctl.policies.stopping.base import Memory, Outcome, StopView, stop_rule
from fluxctl.types import Verdict

LOSS_FACTOR: Final = 10.0
LEARNED_MARGIN: Final = 0.10  # above chance: the model had learned
FALLEN_MARGIN: Final = 0.10  # below its best: it has lost what it had learned
NUM_COLLAPSED: Final = 2
_TOLERANCE: Final = 1e-9  # accuracies are quotients: 0.82 - 0.72 must count as 0.10


@stop_rule("divergence", order=10)
def divergence(memory: Memory, view: StopView) -> Outcome:
    """Look for the three signs of a broken model."""
    point = view.point
    if point is None or not view.conditions.limits.divergence_guard:
        return memory, None
    if not point.finite or not math.isfinite(point.loss):
        what = "loss" if point.finite else "weights"
        return memory, (Verdict.DIVERGED, f"{what} not finite at bin {point.bins}")
    first_loss = memory.get("first_loss", point.loss)
    collapsed = memory.get("collapsed", 0) + 1 if _has_collapsed(view) else 0
    memory = {"first_loss": first_loss, "collapsed": collapsed}
    if point.loss > LOSS_FACTOR * first_loss > 0:
        return memory, (
            Verdict.DIVERGED,
            f"loss {point.loss:.4g} at bin {point.bins} is more than {LOSS_FACTOR:g} times the first, {first_loss:.4g}",
        )
    if collapsed >= NUM_COLLAPSED and view.best is not None:
        return memory, (
            Verdict.DIVERGED,
            f"predictions fell to one class: accuracy {point.accuracy:.3f} at bin {point.bins}"
            f" after a best of {view.best.accuracy:.3f}",
        )
    return memory, None


def _has_collapsed(view: StopView) -> bool:
    point, best = view.point, view.best
    if point is None or best is None or not point.one_class:
        return False
    had_learned = best.accuracy >= view.conditions.chance + LEARNED_MARGIN - _TOLERANCE
    return had_learned and point.accuracy <= best.accuracy - FALLEN_MARGIN + _TOLERANCE
