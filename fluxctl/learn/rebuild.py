"""A forward gradient from its description: which directions, and the derivative along each.

What a client sends as a vector is a function of its stream's key and a few numbers. Here it is computed from these
again, by the operations that the client used, so that both have the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fluxctl.config.model import StepConfig
from fluxctl.learn.local_step import StepResult, estimate
from fluxctl.learn.tangents import draw_directions, orthogonal_directions
from fluxctl.world.seeds import Stream

#: Perturbations whose estimate is built on all directions, and not on one of them.
_ON_ALL = ("average", "orthogonal")


def description_of(result: StepResult, step: StepConfig) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Draws of the directions that a result's gradient is built on, and the derivative along each."""
    if step.perturbation in _ON_ALL:
        return tuple(range(len(result.jvps))), result.jvps
    return (result.winner,), (result.jvps[result.winner],)


def num_described(step: StepConfig) -> int:
    """Directions in the description of an update."""
    return step.num_directions if step.perturbation in _ON_ALL else 1


def rebuild(
    num_params: int, source: Stream, draws: tuple[int, ...], jvps: tuple[float, ...], step: StepConfig
) -> Tensor:
    """The gradient that a client described.

    Args:
        num_params: Length d of a gradient.
        source: The client's stream.
        draws: Which of its draws the directions are; all from 0 on where the estimate is built on all of them.
        jvps: Derivative along each.
        step: Perturbation; one that is guided cannot be rebuilt.

    Returns:
        Shape ``(d,)``, float32.
    """
    if step.perturbation not in _ON_ALL:
        return draw_directions(num_params, 1, source, first_draw=draws[0])[0] * jvps[0]
    draw = orthogonal_directions if step.perturbation == "orthogonal" else draw_directions
    # The client's rows begin with theta; where they lie in memory decides how sums are split.
    basis = draw(num_params, len(draws), source, torch.zeros(num_params))
    return estimate(basis, jvps, 0, step)
