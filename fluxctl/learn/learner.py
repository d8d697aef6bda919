"""The learner: cached features, the suffix and a step's settings behind three pure calls.

The engine knows nothing of torch models; it asks for initial parameters, steps and evaluations. A step may run in
several threads at once: nothing is shared but a cache of prepared mini-batches, whose entries are equal whoever makes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fluxctl.config.model import StepConfig
from fluxctl.errors import ConfigError
from fluxctl.learn.controls import PASSES_PER_GRADIENT, LocalSgdSettings, backprop, local_sgd
from fluxctl.learn.evaluate import Evaluation, evaluate
from fluxctl.learn.features import FeatureSet
from fluxctl.learn.layout import ParamLayout, ParamSpec
from fluxctl.learn.local_step import (
    Measurement,
    StepRequest,
    StepResult,
    local_step,
    measure,
    passes_per_step,
)
from fluxctl.learn.memory import StepMemory, step_memory
from fluxctl.learn.split import Batch, Suffix
from fluxctl.world.seeds import stream

__all__ = [
    "Evaluation",
    "Learner",
    "Measurement",
    "StepRequest",
    "StepResult",
    "passes_of_measurement",
    "passes_of_task",
    "passes_per_step",
]

#: Standard deviation of initial weights, BERT's own.
_INIT_STD = 0.02
#: Feature rows of one evaluation piece: with the weights, what fits a core's own cache.
_EVAL_ROWS = 256
#: Prepared mini-batches are kept up to this; beyond it they are prepared again for each step.
_CACHE_BYTES = 1 << 30


class Learner:
    """Trains and evaluates parameter vectors on cached features.

    Args:
        suffix: The part of the model that training runs.
        train: Features and labels of all clients' texts.
        test: Features and labels of the test set.
        step: What a client does with a mini-batch.
    """

    def __init__(self, suffix: Suffix, train: FeatureSet, test: FeatureSet, step: StepConfig) -> None:
        self.layout: ParamLayout = suffix.layout
        if step.perturbation == "orthogonal" and step.num_directions > self.layout.num_params:
            raise ConfigError(
                f"{step.num_directions} orthogonal directions do not fit {self.layout.num_params} trainable parameters",
                hint="lower step.num_directions",
                where="step.num_directions",
            )
        self._suffix = suffix
        self._train = train
        self._test = test
        self._step = step
        self._batches: dict[tuple[int, ...], Batch] = {}
        self._batch_bytes = 0

    def initial_params(self, seed: int) -> Tensor:
        """The model that every run of a seed starts from, shape ``(d,)``, float32.

        Weights are N(0, 0.02), except that up-projections and all biases are 0: every adapter starts as the identity.
        """
        params = torch.zeros(self.layout.num_params)
        source = stream(seed, "init")
        for draw, spec in enumerate(self.layout.specs):
            if _starts_random(spec):
                params[spec.span] = torch.from_numpy(source.normals(spec.size, draw)) * _INIT_STD
        return params

    def step(self, request: StepRequest) -> StepResult:
        """Run one client's task; see :func:`~fluxctl.learn.local_step.local_step` and :mod:`fluxctl.learn.controls`."""
        if self._step.estimator == "backprop":
            return backprop(request, self._batch(request.samples), self._suffix)
        if self._step.estimator == "local_sgd":
            return local_sgd(request, self._batch, self._suffix, local_settings(self._step))
        return local_step(request, self._batch(request.samples), self._suffix, self._step)

    def measure(self, request: StepRequest) -> Measurement:
        """Loss and utility of a task's texts at its parameters: what a client does that only evaluates."""
        step = self._step
        pieces: tuple[tuple[int, ...], ...] = (request.samples,)
        if step.estimator == "local_sgd":
            pieces = local_settings(step).batches(request.samples)
        return measure(request.params, [self._batch(piece) for piece in pieces], self._suffix)

    def evaluate(self, params: Tensor) -> Evaluation:
        """Accuracy, loss and Matthews correlation on the test set, for parameters of shape ``(d,)``."""
        return evaluate(self._suffix, params, self._test_batches)

    def evaluate_on(self, params: Tensor, samples: Iterable[int]) -> Evaluation:
        """The same on some of the training texts, at least one, for example a client's own."""
        return evaluate(self._suffix, params, self._pieces(self._train, samples))

    def params_from(self, tensors: Mapping[str, npt.NDArray[np.float32]]) -> Tensor:
        """The vector of named flat tensors as a checkpoint holds them, shape ``(d,)``.

        Raises:
            ValueError: If they are not those of this model.
        """
        sizes = {spec.name: spec.size for spec in self.layout.specs}
        if {name: tensor.size for name, tensor in tensors.items()} != sizes:
            raise ValueError("the tensors are not those of this model")
        return torch.cat([torch.from_numpy(tensors[name].copy()).view(-1) for name in sizes])

    def with_step(self, step: StepConfig) -> Learner:
        """A learner on the same model and features that steps in another way."""
        return Learner(self._suffix, self._train, self._test, step)

    def step_memory(self, request: StepRequest) -> StepMemory:
        """Peak memory of a task, forward gradient and back-propagation; see :mod:`fluxctl.learn.memory`."""
        return step_memory(request, self._batch(request.samples), self._suffix, self._step)

    def _batch(self, samples: tuple[int, ...]) -> Batch:
        batch = self._batches.get(samples)
        if batch is None:
            batch = self._suffix.batch(*self._train.gather(samples))
            if self._batch_bytes < _CACHE_BYTES:
                self._batches[samples] = batch
                self._batch_bytes += batch.num_bytes
        return batch

    @cached_property
    def _test_batches(self) -> list[Batch]:
        return self._pieces(self._test, range(self._test.num_samples))

    def _pieces(self, texts: FeatureSet, samples: Iterable[int]) -> list[Batch]:
        """Some texts in pieces for evaluation, in their order."""
        lengths: list[int] = texts.offsets.diff().tolist()
        batches: list[Batch] = []
        piece: list[int] = []
        rows = 0
        for sample in samples:
            if piece and rows + lengths[sample] > _EVAL_ROWS:
                batches.append(self._suffix.batch(*texts.gather(piece)))
                piece, rows = [], 0
            piece.append(sample)
            rows += lengths[sample]
        batches.append(self._suffix.batch(*texts.gather(piece)))
        return batches


def local_settings(step: StepConfig) -> LocalSgdSettings:
    """Settings of the local SGD that a step is configured to be."""
    return LocalSgdSettings(step.local_lr, step.local_epochs, step.local_batch_size)


def passes_of_task(step: StepConfig, num_samples: int) -> int:
    """Forward passes, or their equivalents, of a task of ``num_samples`` texts, known before it runs."""
    if step.estimator == "backprop":
        return PASSES_PER_GRADIENT
    if step.estimator == "local_sgd":
        return local_settings(step).num_passes(num_samples)
    return passes_per_step(step)


def passes_of_measurement(step: StepConfig, num_samples: int) -> int:
    """Forward passes over a task's ``num_samples`` texts without training on them."""
    return len(local_settings(step).batches(tuple(range(num_samples)))) if step.estimator == "local_sgd" else 1


def _starts_random(spec: ParamSpec) -> bool:
    return spec.name.endswith(".weight") and not spec.name.endswith(".up.weight")
