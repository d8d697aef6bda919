"""Directions in parameter space: which v a step evaluates.

Draw p of the step's stream is direction p, i.i.d. N(0, 1) per trainable element and not normalised. Nothing else is
random in a step.

Source:
    Xu et al., FwdLLM: Efficient Federated Finetuning of Large Language Models with Perturbed Inferences, USENIX ATC
    2024, arXiv:2308.13894 (candidates guided by the previous aggregate).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fluxctl.learn.layout import ParamLayout
from fluxctl.world.seeds import Stream


def draw_directions(
    num_params: int, num: int, source: Stream, base: Tensor | None = None, *, first_draw: int = 0
) -> Tensor:
    """Draw directions.

    Args:
        num_params: Length ``d`` of each.
        num: How many, P.
        source: Stream of the step; direction p is its draw p.
        base: Put in front of the directions if given, shape ``(d,)``.
        first_draw: Draw of the first direction, if not 0.

    Returns:
        Shape ``(P, d)``, or ``(1 + P, d)`` with a base; float32.
    """
    first = 0 if base is None else 1
    rows = torch.empty(first + num, num_params)  # torch's memory is aligned, numpy's need not be
    values = rows.numpy()
    if base is not None:
        values[0] = base.numpy()
    for draw in range(num):
        source.normals(num_params, first_draw + draw, out=values[first + draw])
    return rows


def orthogonal_directions(num_params: int, num: int, source: Stream, base: Tensor) -> Tensor:
    """Draw directions and make them orthogonal, each as long as it was drawn.

    Every one of them is still N(0, 1) per element by itself, so their mean estimate is unbiased; but none measures what
    another has measured. Modified Gram-Schmidt, in the order of the draws.

    Args:
        num_params: Length ``d`` of each.
        num: How many, P; at most ``d``.
        source: Stream of the step.
        base: Put in front of the directions, shape ``(d,)``.

    Returns:
        Shape ``(1 + P, d)``, float32.
    """
    rows = draw_directions(num_params, num, source, base)
    units: list[Tensor] = []
    for row in rows[1:]:
        rest = row.to(torch.float64)
        length = torch.linalg.vector_norm(rest)
        for unit in units:
            rest = rest - torch.dot(rest, unit) * unit
        units.append(rest / torch.linalg.vector_norm(rest))
        row.copy_(units[-1] * length)
    return rows


def guided_direction(candidates: Tensor, guide: Tensor, layout: ParamLayout) -> Tensor:
    """Assemble, tensor by tensor, the candidate that points most along a guide.

    Args:
        candidates: Shape ``(num, d)``.
        guide: The previous bin's aggregate, shape ``(d,)``. Where a tensor of it is zero (or not finite) candidate 0
            is taken.
        layout: Where the tensors are.

    Returns:
        Shape ``(d,)``; within each tensor a copy of the candidate with the largest cosine, ties to the lowest index.
    """
    guide = guide.clone()  # into aligned memory, see the package docstring
    direction = torch.empty_like(guide)
    for spec in layout.specs:
        part = candidates[:, spec.span]
        # The guide's norm is common to all candidates and does not change which is largest.
        cosine = torch.mv(part, guide[spec.span]) / torch.linalg.vector_norm(part, dim=1).clamp_min(1e-30)
        # numpy's argmax promises the first of equal maxima, and the first nan.
        direction[spec.span] = part[int(np.argmax(cosine.numpy()))]
    return direction
