"""What a client does with one mini-batch: draw directions, measure derivatives, send back one gradient estimate.

The estimate is ``g = jvp(v) v``. Perturbations differ in which v:

* ``random``: draw 0.
* ``cosine_guided``: per tensor, the one of ``num_candidates`` draws nearest to the last aggregate; without one, random.
* ``max_jvp``: of P draws, the one with the largest ``|jvp|``.
* ``average``: the mean of ``jvp_p v_p`` over P draws.
* ``orthogonal``: the same over P draws that are made orthogonal to each other.

With ``fast_path`` off, the step also does what older scripts did: three log-only passes at theta and, for
``max_jvp``, a second evaluation of the winner. Their values are never used, so the estimate is bit-identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import torch
from torch import Tensor

from fluxctl.config.model import StepConfig
from fluxctl.learn.forward_grad import ESTIMATORS, passes_for
from fluxctl.learn.gate_stat import mean, statistical_utility
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.points import Points
from fluxctl.learn.split import Batch, Suffix
from fluxctl.learn.tangents import draw_directions, guided_direction, orthogonal_directions
from fluxctl.world.seeds import Stream

_LOG_PASSES = 3


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One client's task.

    Attributes:
        params: Trainable vector theta, shape ``(d,)``, float32; only read.
        samples: Indices of the mini-batch in the training set.
        stream: Where the directions come from.
        guide: The last aggregate, shape ``(d,)``, if this bin is guided.
    """

    params: Tensor
    samples: tuple[int, ...]
    stream: Stream
    guide: Tensor | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one task found. Values are nan or inf, not errors, when the model has diverged.

    Attributes:
        gradient: Estimate, shape ``(d,)``, float32.
        loss: Mean loss at theta in nats, from the passes already made: exact for forward differences and forward-mode
            AD, the mean over all points (error O(h^2)) for central differences.
        stat_utility: ``|B| sqrt(mean of squared per-text losses)``, from the same losses.
        jvps: Derivative along each evaluated direction.
        winner: Index of the direction that the estimate is built on; 0 where there is no choice.
        forward_passes: Evaluations of the mini-batch's loss, log-only ones included.
        num_directions: Directions evaluated, P.
        num_samples: Texts in the mini-batch.
        base_loss: Loss at theta from a log-only pass; None on the fast path.
    """

    gradient: Tensor
    loss: float
    stat_utility: float
    jvps: tuple[float, ...]
    winner: int
    forward_passes: int
    num_directions: int
    num_samples: int
    base_loss: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a client finds that does not train.

    Attributes:
        loss: Mean loss at theta in nats.
        stat_utility: ``|B| sqrt(mean of squared per-text losses)``.
        forward_passes: Evaluations of a mini-batch's loss.
        num_samples: Texts measured.
    """

    loss: float
    stat_utility: float
    forward_passes: int
    num_samples: int


def measure(params: Tensor, batches: Sequence[Batch], suffix: Suffix) -> Measurement:
    """One forward pass over each mini-batch.

    Args:
        params: Theta, shape ``(d,)``; only read.
        batches: At least one, prepared.
        suffix: What to evaluate.
    """
    with torch.inference_mode():
        points = Points(params.clone().unsqueeze(0))  # into aligned memory, see the package docstring
        losses = [loss for batch in batches for loss in suffix.losses(points, batch)[0].tolist()]
    return Measurement(mean(losses), statistical_utility(losses), len(batches), len(losses))


def passes_per_step(step: StepConfig) -> int:
    """Forward passes of one step, known before it runs.

    On the slow path that is 25 for ``max_jvp`` with P = 10 and 5 for one random direction.
    """
    passes = passes_for(step.estimator, step.num_directions)
    if not step.fast_path:
        passes += _LOG_PASSES + (2 if step.perturbation == "max_jvp" else 0)
    return passes


def local_step(request: StepRequest, batch: Batch, suffix: Suffix, step: StepConfig) -> StepResult:
    """Estimate the gradient of a mini-batch's mean loss.

    Args:
        request: The task.
        batch: Its mini-batch, prepared.
        suffix: What to evaluate.
        step: Estimator and perturbation.
    """

    def losses_at(points: Points) -> Tensor:
        return suffix.losses(points, batch)

    estimator = ESTIMATORS[step.estimator]
    basis = _basis(request, suffix.layout, step)
    found = estimator(losses_at, basis, step.step_size)
    winner = _winner(found.jvps) if step.perturbation == "max_jvp" else 0

    base_loss = None
    if not step.fast_path:
        with torch.inference_mode():
            base_loss = float(losses_at(Points(basis[:1].expand(_LOG_PASSES, -1)))[0].mean())
        if step.perturbation == "max_jvp":
            estimator(losses_at, basis[[0, 1 + winner]], step.step_size)

    return StepResult(
        gradient=estimate(basis, found.jvps, winner, step),
        loss=mean(found.sample_losses),
        stat_utility=statistical_utility(found.sample_losses),
        jvps=found.jvps,
        winner=winner,
        forward_passes=passes_per_step(step),
        num_directions=step.num_directions,
        num_samples=len(request.samples),
        base_loss=base_loss,
    )


def _basis(request: StepRequest, layout: ParamLayout, step: StepConfig) -> Tensor:
    """Theta and the step's directions, shape ``(1 + P, d)``."""
    if step.perturbation == "cosine_guided" and request.guide is not None:
        candidates = draw_directions(layout.num_params, step.num_candidates, request.stream)
        return torch.stack([request.params, guided_direction(candidates, request.guide, layout)])
    draw = orthogonal_directions if step.perturbation == "orthogonal" else draw_directions
    return draw(layout.num_params, step.num_directions, request.stream, request.params)


def _winner(jvps: Sequence[float]) -> int:
    """Largest ``|jvp|``, ties to the lowest index; the first non-finite one wins, so that divergence is seen."""
    sizes = [abs(value) if isfinite(value) else inf for value in jvps]
    return sizes.index(max(sizes))


def estimate(basis: Tensor, jvps: Sequence[float], winner: int, step: StepConfig) -> Tensor:
    """The gradient that derivatives along directions stand for, shape ``(d,)``.

    Args:
        basis: Theta and the directions, shape ``(1 + P, d)``.
        jvps: Derivative along each direction.
        winner: Index of the direction that is taken, where one is.
        step: Perturbation.
    """
    if step.perturbation in ("average", "orthogonal"):
        return torch.mv(basis[1:].t(), torch.tensor(jvps)).div_(len(jvps))
    return basis[1 + winner] * jvps[winner]
