"""Events of the aggregator: whom it asked, what a cycle and an evaluation gave, what it decided."""

from __future__ import annotations

from collections.abc import Mapping

from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.cohort import SelectionRecord
from fluxctl.engine.commit import BinTrainer
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.ledger import Flight, set_fingerprint
from fluxctl.engine.pace import Pace
from fluxctl.engine.totals import Totals
from fluxctl.learn.evaluate import Evaluation
from fluxctl.policies.control import ControlDecision
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import Ns, s_from_ns


class CycleEvents:
    """Writes what the aggregator decides.

    Args:
        writer: Where events go.
        config: The run's configuration.
        totals: Counters of the run.
        pace: Learns of commits.
    """

    def __init__(self, writer: EventSink, config: Config, totals: Totals, pace: Pace) -> None:
        self._writer = writer
        self._config = config
        self._totals = totals
        self._pace = pace

    def selection(self, t: Ns, cadence: Cadence, record: SelectionRecord) -> None:
        """C2: who was chosen from whom."""
        chosen, detail = record.selection.chosen, dict(record.selection.detail)
        self._writer.emit(
            t,
            "selection",
            {
                "round": cadence.round,
                "bin": cadence.bin,
                "iteration": cadence.iteration,
                "task": record.work.value,
                "selector": self._config.selection.policy.name,
                "num_candidates": record.num_clients,
                "num_eligible": record.eligible.num,
                "avail_composition": record.eligible.composition,
                "chosen": list(chosen),
                "num_chosen": len(chosen),
                "requested": record.requested,
                "kept": record.kept,
                "in_flight": record.in_flight,
                "seed": self._config.seed,
                "eligible_fingerprint": f"{record.eligible.fingerprint:016x}",
                "decision_fingerprint": f"{set_fingerprint(chosen):016x}",
                "effective_c": record.concurrency,
                "preferred_duration_s": detail.pop("preferred_duration_s", None),
                "in_pending_commit": 0,
                "detail": detail,
            },
        )

    def control(self, t: Ns, name: str, dispatcher: Dispatcher, decision: ControlDecision) -> None:
        """A decision on K and C, with its inputs."""
        self._writer.emit(
            t,
            "control",
            {
                "controller": name,
                "goal_before": dispatcher.goal,
                "goal": decision.goal,
                "concurrency_before": dispatcher.concurrency,
                "concurrency": decision.concurrency,
                "inputs": dict(decision.inputs),
            },
        )

    def residence(self, t: Ns, before: int, after: int, committed: int, cleaned: int, flights: list[Flight]) -> None:
        """C9: slots in use around the end of a cycle."""
        self._writer.emit(
            t,
            "residence",
            {
                "in_flight_before": before,
                "in_flight_after": after,
                "num_selected": after - (before - committed - cleaned),
                "num_committed": committed,
                "num_cleaned": cleaned,
                "num_stale_rejected": self._totals.stale_rejected,
                "ages_s": [s_from_ns(t - flight.dispatch_ns) for flight in flights],
            },
        )

    def agg_round(
        self, t: Ns, fields: Mapping[str, object], measured: Mapping[str, object], *, committed: bool
    ) -> None:
        """C4: one select-to-commit cycle."""
        if committed:
            self._pace.committed(t)
        self._writer.emit(t, "agg_round", fields, wall={**measured, **self._pace.at(t)})

    def rollback(self, t: Ns, cadence: Cadence, seen: Evaluation, reason: str, trainer: BinTrainer) -> None:
        """B16: a model that has diverged is replaced; what was seen of it is told here, and not as an evaluation."""
        self._totals.rollbacks = trainer.num_rollbacks
        self._writer.emit(
            t,
            "rollback",
            {
                "version": cadence.version,
                "test_accuracy": seen.accuracy,
                "test_loss": seen.loss,
                "reason": reason,
                "num_rollbacks": trainer.num_rollbacks,
                "lr": trainer.lr,
                "model_checksum": trainer.checksum,
            },
        )

    def agg_eval(self, t: Ns, cadence: Cadence, evaluation: Evaluation, *, is_finite: bool) -> None:
        """C3: one evaluation of the global model; that its weights are not finite is said only when it is so."""
        totals = self._totals
        totals.final_accuracy = evaluation.accuracy
        totals.best_accuracy = max(evaluation.accuracy, totals.best_accuracy or 0.0)
        self._writer.emit(
            t,
            "agg_eval",
            {
                "round": cadence.round,
                "bin": cadence.bin,
                "iteration": cadence.iteration,
                "version": cadence.version,
                "test_accuracy": evaluation.accuracy,
                "test_loss": evaluation.loss,
                "mcc": evaluation.mcc,
                "predicted_counts": list(evaluation.predicted_counts),
                "label_counts": list(evaluation.label_counts),
                **({} if is_finite else {"weights_finite": False}),
            },
        )
