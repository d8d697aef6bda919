"""From a cohort to a model version: pool, variance gate, aggregation, server step, evaluation.

Order matters to the split-half statistic and to gradient-aware rates, and floating-point sums depend on it, so
everything here works in commit order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch

from fluxctl.config.model import Config, ServerConfig
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.pool import Contribution, UpdatePool
from fluxctl.engine.sending import GlobalModel
from fluxctl.learn.evaluate import Evaluation
from fluxctl.learn.gate_stat import split_half_variance
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.server_optim import ServerOptimizer, ServerSettings
from fluxctl.learn.server_step import aggregate
from fluxctl.policies.commits.variance import commit_reason
from fluxctl.policies.rates.base import Rate
from fluxctl.types import CommitReason


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """What the end of a cycle decided.

    Args:
        variance: Split-half statistic over all updates of the bin; None when undefined.
        reason: Why the bin was committed; None = same bin again.
        is_natural: Whether the variance is under the threshold.
        pool_size: Updates of the bin so far, over all iterations.
        num_gated: Updates that the rate policy damped.
        rates: Weight of each update of the pool, in commit order; None without a commit.
        aggregate_norm: Euclidean norm of the aggregate; None without a commit.
        checksum: Hash of the trainable weights after the cycle.
    """

    variance: float | None
    reason: CommitReason | None
    is_natural: bool
    pool_size: int
    num_gated: int = 0
    rates: list[float] | None = None
    aggregate_norm: float | None = None
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model that was good, with what the server's steps depend on.

    Attributes:
        params: Weights, shape ``(d,)``.
        aggregate: Of the commit that made them; None for the initial ones.
        memory: Of the optimizer.
        evaluation: What was found of it; None if it was never evaluated.
    """

    params: torch.Tensor
    aggregate: torch.Tensor | None
    memory: dict[str, torch.Tensor]
    evaluation: Evaluation | None


class ServerLearner(Protocol):
    """The part of a learner that the server uses."""

    layout: ParamLayout

    def initial_params(self, seed: int) -> torch.Tensor:
        """The model that every run of a seed starts from, shape ``(d,)``."""
        ...

    def evaluate(self, params: torch.Tensor) -> Evaluation:
        """Metrics on the test set for parameters of shape ``(d,)``."""
        ...


class BinTrainer:
    """The server's side of learning.

    Args:
        config: The run's configuration.
        learner: Model, for initial weights and evaluation.
        rate: Weight of each update.
    """

    def __init__(self, config: Config, learner: ServerLearner, rate: Rate) -> None:
        self._config = config
        self._learner = learner
        self._rate = rate
        self._params = learner.initial_params(config.seed)
        self._optimizer = ServerOptimizer(_settings(config.server), config.limits.max_bins)
        self._aggregate: torch.Tensor | None = None
        self._pool = UpdatePool(learner.layout.num_params)
        self._tracked = learner.layout.tracked(config.gate.tracked_tensor)
        self._history: list[float | None] = []
        self._checksum = self._hash()
        self._good = Snapshot(self._params, None, {}, None)
        self.num_rollbacks = 0

    @property
    def params(self) -> torch.Tensor:
        """Current weights, shape ``(d,)``."""
        return self._params

    def model(self, cadence: Cadence) -> GlobalModel:
        """What a client would be sent now; the last aggregate goes along in guided bins."""
        return GlobalModel(self._params.numpy(), self._guide(cadence))

    def _guide(self, cadence: Cadence) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
        step = self._config.step
        if step.perturbation != "cosine_guided" or self._aggregate is None:
            return None
        # The original implementation alternates, beginning with a random bin.
        if step.alternate and cadence.num_commits % 2 == 0:
            return None
        return self._aggregate.numpy()

    def close(self, cohort: tuple[Contribution, ...], cadence: Cadence) -> GateOutcome:
        """Add a cohort to the bin and commit it if the gate opens."""
        for contribution in cohort:
            self._pool.add(contribution)
        variance = split_half_variance(torch.from_numpy(self._pool.gradients[:, self._tracked]))
        self._history.append(variance)
        gate, size = self._config.gate, len(self._pool)
        is_natural = variance is not None and variance <= gate.var_threshold
        reason = commit_reason(gate, self._history, cadence.iteration) if gate.enabled else CommitReason.NATURAL
        if reason is None:
            return GateOutcome(variance, None, is_natural, size, checksum=self._checksum)
        rates = self._rate.rates(self._pool.rate_inputs(self._tracked), self._pool.gradients)
        weights = torch.from_numpy(rates.rates * self._pool.num_samples()).to(torch.float32)
        # Divides by the samples, not by the sum of the rates: a rate below one takes a smaller step.
        update = aggregate(torch.from_numpy(self._pool.gradients), weights / float(self._pool.num_samples().sum()))
        self._params = self._optimizer.step(self._params, update)
        self._aggregate = update
        self._pool.clear()
        self._history.clear()
        self._checksum = self._hash()
        return GateOutcome(
            variance,
            reason,
            is_natural,
            size,
            rates.num_gated,
            rates.rates.tolist(),
            float(torch.linalg.vector_norm(update)),
            self._checksum,
        )

    def evaluate(self) -> Evaluation:
        """Evaluate the current weights on the test set."""
        return self._learner.evaluate(self._params)

    def is_finite(self) -> bool:
        """Whether every weight is finite."""
        return bool(torch.isfinite(self._params).all())

    @property
    def checksum(self) -> str:
        """Hash of the trainable weights."""
        return self._checksum

    @property
    def last_good_params(self) -> torch.Tensor:
        """The best weights so far, shape ``(d,)``."""
        return self._good.params

    def keep_if_good(self, evaluation: Evaluation) -> None:
        """Remember the best model so far, so that a collapse later loses nothing."""
        best = self._good.evaluation
        is_better = best is None or evaluation.accuracy > best.accuracy
        if is_better and math.isfinite(evaluation.loss) and self.is_finite():
            memory = self._optimizer.state()[0] if self._config.server.on_divergence == "rollback" else {}
            self._good = Snapshot(self._params, self._aggregate, memory, evaluation)

    def roll_back(self) -> Evaluation | None:
        """After a divergence: go on from the best model so far, with a smaller learning rate.

        Its version has not been sent to anybody yet, so the restored weights take its place.

        Returns:
            The evaluation of the restored model; None if the run shall end instead, or there is no good model.
        """
        server, good = self._config.server, self._good
        if server.on_divergence == "stop" or self.num_rollbacks >= server.max_rollbacks or good.evaluation is None:
            return None
        self.num_rollbacks += 1
        self._params, self._aggregate = good.params, good.aggregate
        self._optimizer.roll_back(good.memory, server.rollback_lr_factor)
        self._checksum = self._hash()
        return good.evaluation

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        return self._optimizer.lr

    def _hash(self) -> str:
        return hashlib.blake2b(self._params.numpy().tobytes(), digest_size=8).hexdigest()


def _settings(server: ServerConfig) -> ServerSettings:
    names = {field.name for field in fields(ServerSettings)}
    return ServerSettings(**server.model_dump(include=names))
