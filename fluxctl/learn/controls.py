"""What clients do in the control baselines, which have gradients: back-propagation and local SGD.

They train the same vector through the same suffix on the same mini-batches as forward gradients do, so that a
difference between baselines is one of the method. Nothing is random in them: the suffix has no dropout.

A backward pass does about twice the arithmetic of a forward one: a gradient counts as three passes.

Source:
    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
    arXiv:1602.05629 (local SGD); Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS
    2022, arXiv:2106.06639 (weight deltas as the server's pseudo-gradients).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import torch
from torch import Tensor

from fluxctl.learn.gate_stat import mean, statistical_utility
from fluxctl.learn.local_step import StepRequest, StepResult
from fluxctl.learn.points import Points
from fluxctl.learn.split import Batch, Suffix

#: Forward passes that one gradient counts as: the forward pass itself, and two for the backward pass.
PASSES_PER_GRADIENT: Final = 3


@dataclass(frozen=True, slots=True)
class LocalSgdSettings:
    """Local SGD of one task.

    Attributes:
        lr: The client's learning rate.
        epochs: Passes over the task's texts.
        batch_size: Texts of a mini-batch; the task's texts are cut into them in their order.
    """

    lr: float = 0.01
    epochs: int = 1
    batch_size: int = 8

    def batches(self, samples: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Cut a task's texts into mini-batches; the last one may be smaller."""
        starts = range(0, len(samples), self.batch_size)
        return tuple(samples[start : start + self.batch_size] for start in starts)

    def num_passes(self, num_samples: int) -> int:
        """Pass equivalents of a task, known before it runs."""
        return PASSES_PER_GRADIENT * self.epochs * ceil(num_samples / self.batch_size)


def backprop(request: StepRequest, batch: Batch, suffix: Suffix) -> StepResult:
    """The gradient of a mini-batch's mean loss by reverse-mode AD.

    Args:
        request: The task; its stream and guide are not used.
        batch: Its mini-batch, prepared.
        suffix: What to differentiate.

    Returns:
        A result like a forward gradient's. Its one ``jvp`` is the derivative along the normalised gradient, which is
        the gradient's norm; no direction is drawn.
    """
    gradient, losses = gradient_at(request.params, batch, suffix)
    return _result(gradient, losses, PASSES_PER_GRADIENT, len(request.samples))


def local_sgd(
    request: StepRequest,
    batch_of: Callable[[tuple[int, ...]], Batch],
    suffix: Suffix,
    settings: LocalSgdSettings,
) -> StepResult:
    """Plain SGD over a task's mini-batches, in their order, for some epochs.

    Args:
        request: The task; its texts may be one bin or a whole shard. Its stream and guide are not used.
        batch_of: Prepares a mini-batch of these texts.
        suffix: What to train.
        settings: Learning rate, epochs and mini-batches.

    Returns:
        ``gradient`` is the pseudo-gradient ``theta - theta_after``: a server step of learning rate 1 on it applies the
        weight delta. Loss and utility are from the first epoch, each text's loss right before its mini-batch's step.
        Its one ``jvp`` is the pseudo-gradient's norm.
    """
    params = request.params.clone()
    first_losses: list[float] = []
    batches = settings.batches(request.samples)
    for epoch in range(settings.epochs):
        for samples in batches:
            gradient, losses = gradient_at(params, batch_of(samples), suffix)
            params = torch.sub(params, gradient, alpha=settings.lr)
            if epoch == 0:
                first_losses += losses
    num_samples = len(request.samples)
    return _result(request.params - params, first_losses, settings.num_passes(num_samples), num_samples)


def gradient_at(params: Tensor, batch: Batch, suffix: Suffix) -> tuple[Tensor, list[float]]:
    """Gradient of the mean loss at a point, shape ``(d,)``, and each text's loss there in nats.

    Args:
        params: Shape ``(d,)``; left unchanged.
        batch: The mini-batch, prepared outside inference mode.
        suffix: What to differentiate.
    """
    with torch.enable_grad():
        leaf = params.detach().clone().requires_grad_(True)
        losses = suffix.losses(Points(leaf.unsqueeze(0)), batch)[0]
        (gradient,) = torch.autograd.grad(losses.mean(), leaf)
    return gradient, losses.tolist()


def _result(gradient: Tensor, losses: Sequence[float], num_passes: int, num_samples: int) -> StepResult:
    return StepResult(
        gradient=gradient,
        loss=mean(losses),
        stat_utility=statistical_utility(losses),
        jvps=(float(torch.linalg.vector_norm(gradient)),),
        winner=0,
        forward_passes=num_passes,
        num_directions=0,
        num_samples=num_samples,
    )
