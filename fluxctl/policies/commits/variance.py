"""The variance gate: a bin is repeated with fresh directions until its estimate is sharp enough.

Xu et al., FwdLLM, USENIX ATC 2024, arXiv:2308.13894 (the natural rule); the cap and the plateau rule end bins whose
variance no longer falls, which a threshold below the reachable floor would otherwise repeat without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fluxctl.config.model import GateConfig
from fluxctl.errors import InvariantError
from fluxctl.types import CommitReason


def commit_reason(gate: GateConfig, history: Sequence[float | None], iteration: int) -> CommitReason | None:
    """Decide whether the open bin commits now.

    Args:
        gate: Threshold, stopping policy, cap and plateau settings.
        history: Split-half variance after each iteration of this bin, ``iteration + 1`` values; None = not defined.
        iteration: The iteration that has just ended, from 0.

    Returns:
        Why it commits, the natural reason before the cap and the cap before the plateau; None to repeat the bin.

    Raises:
        InvariantError: If the history does not belong to the iteration.
    """
    if len(history) != iteration + 1:
        raise InvariantError(f"{len(history)} variances for iteration {iteration}; expected {iteration + 1}")
    variance = history[-1]
    if not gate.enabled or _is_natural(gate, variance):
        return CommitReason.NATURAL
    if gate.stopping_policy == "off":
        return None
    if gate.max_iterations_per_bin is not None and iteration + 1 >= gate.max_iterations_per_bin:
        return CommitReason.CAP
    if gate.stopping_policy == "plateau" and _is_plateau(gate, history):
        return CommitReason.PLATEAU
    return None


def _is_natural(gate: GateConfig, variance: float | None) -> bool:
    return variance is not None and math.isfinite(variance) and variance <= gate.var_threshold


def _is_plateau(gate: GateConfig, history: Sequence[float | None]) -> bool:
    """Whether the variance fell by less than the wanted share over the window; needs window + 1 values."""
    if len(history) <= gate.plateau_window:
        return False
    earlier, now = history[-1 - gate.plateau_window], history[-1]
    if earlier is None or now is None or not (math.isfinite(earlier) and math.isfinite(now)):
        return False
    return now > gate.var_threshold and earlier > 0 and (earlier - now) / earlier < gate.plateau_min_drop
