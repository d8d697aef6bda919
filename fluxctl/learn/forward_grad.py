"""Directional derivatives of the loss without a backward pass.

An estimator takes a function from :class:`~fluxctl.learn.points.Points` to per-text losses and evaluates all
directions of a step in one call. Each point's loss depends on its own parameter vector only, so one batched call
(and, for forward-mode AD, one tangent per row) gives all derivatives.

A *pass* is one evaluation of the mini-batch's loss at one parameter vector. A forward-mode pass carries a tangent
through every operation, about twice the arithmetic, and counts as two, so that the estimators' costs compare.

Non-finite losses are returned, not raised: a learning rate that is far too high must end a run as DIVERGED, decided
by the engine's guard, and not as a crashed trainer.

Source:
    Baydin et al., Gradients without Backpropagation, 2022, arXiv:2202.08587 (forward gradients); Malladi et al.,
    Fine-Tuning Language Models with Just Forward Passes, NeurIPS 2023, arXiv:2305.17333 (central differences).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import torch
import torch.autograd.forward_ad as fwd
from torch import Tensor

from fluxctl.learn.gate_stat import mean
from fluxctl.learn.points import Points

#: Maps R points to losses in nats, shape ``(R, num_samples)``.
LossFn: TypeAlias = Callable[[Points], Tensor]

#: The one level of torch's forward-mode AD.
_LEVEL: Final = 0


@dataclass(frozen=True, slots=True)
class Derivatives:
    """What one estimator call found; values may be nan or inf.

    Attributes:
        jvps: Derivative of the mean loss along each of the P directions.
        sample_losses: Loss of each text at theta in nats. Central differences never evaluate theta: theirs is the mean
            over all points, which is exact up to h^2.
    """

    jvps: tuple[float, ...]
    sample_losses: tuple[float, ...]


#: ``(losses_at, basis, h)``: basis is theta followed by P directions, shape ``(1 + P, d)``.
Estimator: TypeAlias = Callable[[LossFn, Tensor, float], Derivatives]


def central_difference(losses_at: LossFn, basis: Tensor, step_size: float) -> Derivatives:
    """``(f(theta + h v) - f(theta - h v)) / 2h``: two passes a direction, error O(h^2)."""
    with torch.inference_mode():
        losses = losses_at(Points.around(basis, (step_size, -step_size))).tolist()
    num = len(losses) // 2
    ahead, behind = map(mean, losses[:num]), map(mean, losses[num:])
    jvps = tuple((plus - minus) / (2 * step_size) for plus, minus in zip(ahead, behind, strict=True))
    return Derivatives(jvps, tuple(map(mean, zip(*losses, strict=True))))


def forward_difference(losses_at: LossFn, basis: Tensor, step_size: float) -> Derivatives:
    """``(f(theta + h v) - f(theta)) / h``: P + 1 passes for P directions, error O(h)."""
    with torch.inference_mode():
        losses = losses_at(Points.around(basis, (step_size,), with_base=True)).tolist()
    base = mean(losses[0])
    return Derivatives(tuple((mean(row) - base) / step_size for row in losses[1:]), tuple(losses[0]))


def jvp(losses_at: LossFn, basis: Tensor, step_size: float) -> Derivatives:  # noqa: ARG001
    """Forward-mode AD: exact derivatives, one dual pass (= two passes) a direction.

    torch keeps the level of forward-mode AD in process-wide state, and steps run in several threads: the level is
    opened once and stays open, since closing it would drop the tangents of other threads' steps.
    """
    _open_level()
    with torch.no_grad():
        theta = basis[:1].expand(len(basis) - 1, -1).contiguous()
        dual = fwd.make_dual(theta, basis[1:], level=_LEVEL)  # type: ignore[no-untyped-call]
        losses, tangents = fwd.unpack_dual(losses_at(Points(dual)), level=_LEVEL)  # type: ignore[no-untyped-call]
    return Derivatives(tuple(map(mean, tangents.tolist())), tuple(losses[0].tolist()))


@cache
def _open_level() -> None:
    with suppress(RuntimeError):  # "nested": another thread was first
        fwd.enter_dual_level()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # The first dual tensor of a process makes torch script its own derivative formulas, which it deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        fwd.make_dual(torch.zeros(1), torch.zeros(1), level=_LEVEL)  # type: ignore[no-untyped-call]


ESTIMATORS: Final[dict[str, Estimator]] = {
    "central_difference": central_difference,
    "forward_difference": forward_difference,
    "jvp": jvp,
}


def passes_for(estimator: str, num_directions: int) -> int:
    """Forward passes that an estimator spends on P directions."""
    return num_directions + 1 if estimator == "forward_difference" else 2 * num_directions
