"""How gradient estimates become a new model version. Pure functions; nothing is changed in place."""

from __future__ import annotations

from math import inf

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
