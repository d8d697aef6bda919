"""The server's side of a run that learns nothing: bins close when they would, and no vector is looked at."""

from __future__ import annotations

import math

from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.commit import BinTrainer, GateOutcome, ServerLearner
from fluxctl.engine.pool import Contribution
from fluxctl.policies.commits.variance import commit_reason
from fluxctl.policies.rates.base import Rate


class NoTraining(BinTrainer):
    """Counts the updates of a bin instead of averaging them; its model stays what it was, so messages keep their size.

    With updates that are not numbers, see :class:`~fluxctl.whatif.stub.Answers`, the real one decides the same at many
    times the cost.

    Args:
        config: The run, see :func:`~fluxctl.whatif.stub.without_learning`.
        learner: Initial weights and evaluations.
        rate: Weight of each update; not asked.
    """

    def __init__(self, config: Config, learner: ServerLearner, rate: Rate) -> None:
        super().__init__(config, learner, rate)
        self._gate = config.gate
        self._variances: list[float | None] = []  # of the open bin
        self._num_updates = 0

    def close(self, cohort: tuple[Contribution, ...], cadence: Cadence) -> GateOutcome:
        """Count a cohort; the bin commits when its cycles are used up, or at once without a gate."""
        self._num_updates += len(cohort)
        size = self._num_updates
        variance = math.nan if size > 1 else None  # of what is not a number; not defined for one update
        self._variances.append(variance)
        reason = commit_reason(self._gate, self._variances, cadence.iteration)
        if reason is None:
            return GateOutcome(variance, None, False, size, checksum=self.checksum)
        self._num_updates = 0
        self._variances.clear()
        self._aggregate = self.params  # goes along in guided bins, and has the size of one
        return GateOutcome(variance, reason, False, size, rates=[], aggregate_norm=0.0, checksum=self.checksum)
