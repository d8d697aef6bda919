"""Looks at the global model after a commit: evaluates it, asks the stop rules, and goes back if it has diverged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fluxctl.engine.cadence import Cadence
from fluxctl.engine.commit import BinTrainer
from fluxctl.engine.recorder import Recorder
from fluxctl.learn.evaluate import Evaluation
from fluxctl.policies.stopping import EvalPoint, StopDecision, StopState
from fluxctl.types import Ns, Verdict, s_from_ns


@dataclass
class Examiner:
    """Where the stop rules stand.

    Args:
        bin_trainer: The model.
        stopping: Stop rules, before the first evaluation.
        recorder: Telemetry.
    """

    bin_trainer: BinTrainer
    stopping: StopState
    recorder: Recorder

    @property
    def decision(self) -> StopDecision | None:
        """Why the run ends; None while it goes on."""
        return self.stopping.decision

    def tick(self, now: Ns) -> None:
        """Let the stop rules see the time."""
        self.stopping = self.stopping.tick(s_from_ns(now))

    def examine(self, now: Ns, cadence: Cadence) -> None:
        """Evaluate the current version and let the stop rules see it."""
        trainer = self.bin_trainer
        evaluation = trainer.evaluate()
        point = self._point(evaluation, now, cadence)
        judged = self.stopping.update(point)
        if judged.decision is not None and judged.decision.verdict is Verdict.DIVERGED:
            restored = trainer.roll_back()
            if restored is not None:
                self.recorder.cycles.rollback(now, cadence, evaluation, judged.decision.reason, trainer)
                evaluation, point = restored, self._point(restored, now, cadence)
                judged = self.stopping.update(point)
            elif trainer.num_rollbacks:
                judged = _after_rollbacks(judged, trainer.num_rollbacks)
        self.recorder.cycles.agg_eval(now, cadence, evaluation, is_finite=point.finite)
        self.stopping = judged
        trainer.keep_if_good(evaluation)

    def _point(self, evaluation: Evaluation, now: Ns, cadence: Cadence) -> EvalPoint:
        return EvalPoint(
            bins=cadence.num_commits,
            round=cadence.round,
            engine_s=s_from_ns(now),
            accuracy=evaluation.accuracy,
            loss=evaluation.loss,
            mcc=evaluation.mcc,
            one_class=sum(count > 0 for count in evaluation.predicted_counts) == 1,
            finite=self.bin_trainer.is_finite(),
        )


def _after_rollbacks(judged: StopState, num: int) -> StopState:
    """A divergence that going back did not cure; the reason says how often it was tried."""
    assert judged.decision is not None
    reason = f"{judged.decision.reason}, after {num} rollback{'' if num == 1 else 's'}"
    return replace(judged, decision=replace(judged.decision, reason=reason))
