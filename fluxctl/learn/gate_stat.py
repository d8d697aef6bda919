"""Statistics of updates: the variance gate's split-half statistic, and the utility that selectors use."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import torch
from torch import Tensor


def split_half_variance(updates: Tensor) -> float | None:
    """How much two halves of a bin's updates disagree.

    With ``m1`` the mean of the first ``n // 2`` updates and ``m2`` the mean of the others, the statistic is the mean
    over elements of ``(m1 - m2)^2 / 2``. It depends on the order of the updates, which must be their commit order.

    Args:
        updates: The tracked part of every update of the bin, over all its iterations, shape ``(n, m)``.

    Returns:
        The statistic, or None for fewer than two updates: not defined, so it never commits. nan if an update is.

    Source:
        Xu et al., FwdLLM, USENIX ATC 2024, arXiv:2308.13894.
    """
    num = len(updates)
    if num < 2:
        return None
    half = num // 2
    difference = updates[:half].mean(dim=0, dtype=torch.float64) - updates[half:].mean(dim=0, dtype=torch.float64)
    return float(difference.square().mean() / 2)


def mean(values: Sequence[float]) -> float:
    """Mean in double precision, rounded once: the same in any order and on every version of Python.

    Differences of O(1) losses at O(1e-3) need it. Non-finite values pass through.
    """
    return fsum(values) / len(values)


def statistical_utility(sample_losses: Sequence[float]) -> float:
    """``|B| sqrt(mean of squared per-text losses)``.

    Args:
        sample_losses: Loss of each text of the mini-batch, in nats.

    Source:
        Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021, arXiv:2010.06081.
    """
    return len(sample_losses) * sqrt(mean([loss * loss for loss in sample_losses]))
