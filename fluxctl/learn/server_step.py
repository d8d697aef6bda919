"""How gradient estimates become a new model version. Pure functions; nothing is changed in place."""

from __future__ import annotations

from math import ceil, inf

import torch
from torch import Tensor


def aggregate(gradients: Tensor, weights: Tensor) -> Tensor:
    """``sum_i w_i g_i``, in the given (canonical) order.

    Args:
        gradients: Shape ``(n, d)``, float32.
        weights: Shape ``(n,)``: rates over the number of contributions, or over sample counts.

    Returns:
        Shape ``(d,)``, float32; summed in float64.
    """
    return torch.mv(gradients.t().double(), weights.double()).to(gradients.dtype)


def sgd_step(params: Tensor, aggregate: Tensor, lr: float) -> Tensor:
    """``theta - lr * aggregate``.

    Args:
        params: Shape ``(d,)``.
        aggregate: Shape ``(d,)``.
        lr: Learning rate eta.
    """
    return torch.sub(params, aggregate, alpha=lr)


def clipped(aggregate: Tensor, max_norm: float) -> Tensor:
    """Scale an aggregate down to a largest Euclidean norm.

    Args:
        aggregate: Shape ``(d,)``.
        max_norm: The largest norm.

    Returns:
        Shape ``(d,)``; ``aggregate`` itself if it is short enough, or if its norm is not finite: a model that diverges
        is the guard's to judge, and must not be hidden.
    """
    norm = float(torch.linalg.vector_norm(aggregate, dtype=torch.float64))
    if not max_norm < norm < inf:
        return aggregate
    return aggregate * (max_norm / norm)


def linear_factor(step: int, total_steps: int, warmup_ratio: float) -> float:
    """Share of the learning rate at a step.

    It rises over the first ``ceil(warmup_ratio * total_steps)`` steps, is 1 at the last of them, and falls by equal
    amounts from then on so that it would be 0 at step ``total_steps``. No step of the run is wasted on a rate of 0.

    Args:
        step: Counts from 0.
        total_steps: Steps of the whole run; 0 beyond them.
        warmup_ratio: Share of them, at least 0 and below 1.
    """
    num_warmup = ceil(warmup_ratio * total_steps - 1e-9)  # 0.1 * 30 is 3.0000000000000004
    if step < num_warmup:
        return (step + 1) / num_warmup
    return max(total_steps - step, 0) / max(total_steps - num_warmup, 1)
