"""What the run tells the world: builds events from what the aggregator did.

Every event carries logical times and counts, equal on both clocks; what was measured on the wall goes to the event's
``wall`` part. Called from the aggregator's thread only, so the stream has one writer and one order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fluxctl import wall
from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.cohort import SelectionRecord
from fluxctl.engine.dispatcher import Dispatcher, DispatchRecord
from fluxctl.engine.ledger import Flight, set_fingerprint
from fluxctl.engine.messages import Train, Update
from fluxctl.engine.payload import Payload
from fluxctl.learn.evaluate import Evaluation
from fluxctl.policies.control import ControlDecision
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import NS_PER_S, ClientId, Ns, PayloadKind, s_from_ns

PROGRESS_EVERY_S = 0.5


@dataclass
class Totals:
    """Counters of a run; equal on both clocks, for updates that the aggregator has handled."""

    updates: int = 0
    forward_passes: int = 0
    directions: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    surplus: int = 0
    stale_rejected: int = 0
    abandoned: int = 0
    gated: int = 0
    best_accuracy: float | None = None
    final_accuracy: float | None = None
    client_passes: dict[int, int] = field(default_factory=dict)
    client_directions: dict[int, int] = field(default_factory=dict)


class Recorder:
    """Writes the event stream of one run.

    Args:
        writer: Where events go.
        config: The run's configuration.
        factor: Engine seconds that one wall second of compute stands for.
    """

    def __init__(self, writer: EventSink, config: Config, factor: float = 1.0) -> None:
        self._writer = writer
        self._config = config
        self._gates = config.availability.trace != "syn_0"  # deliveries may have to wait
        self._factor = factor
        self.totals = Totals()
        self._open: dict[ClientId, Train] = {}  # dispatched, and their receipt not yet told
        self._last_progress_s = 0.0
        self._first_dispatch_wall_ns: Ns | None = None
        self._last_commit_wall_ns: Ns | None = None
        self._first_dispatch_ns: Ns | None = None
        self._last_commit_ns: Ns = 0

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
                "task": "train",
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

    def dispatch(self, record: DispatchRecord) -> None:
        """C11 and C16: one message to a client."""
        task = record.task
        if self._first_dispatch_wall_ns is None:
            self._first_dispatch_wall_ns, self._first_dispatch_ns = wall.monotonic_ns(), task.dispatch_ns
        self.totals.bytes_down += len(task.payload)
        self._open[task.client] = task
        self._writer.emit(
            task.dispatch_ns,
            "dispatch",
            {
                "client": task.client,
                "task": task.task_id,
                "dispatch_ns": task.dispatch_ns,
                "due_ns": task.earliest_due_ns,
                "attempt": task.attempt,
                "stagger_s": s_from_ns(record.stagger_ns),
            },
            key=task.client,
        )
        self._comm(task.dispatch_ns, "down", len(task.payload), task, record.kind, record.num_tensors)

    def delivered(self, update: Update, payload: Payload, staleness: int, *, is_accepted: bool, is_late: bool) -> None:
        """C5, C6, C7, C12 and C16: what a trainer received, did and sent.

        Args:
            update: The message.
            payload: Its content.
            staleness: Versions committed since its dispatch.
            is_accepted: Whether the staleness policy lets it count.
            is_late: Whether its client had been given up.
        """
        task, report, totals = update.task, update.report, self.totals
        totals.updates += 1
        totals.forward_passes += report.forward_passes
        totals.directions += report.num_directions
        totals.bytes_up += len(update.payload)
        passes = totals.client_passes[task.client] = totals.client_passes.get(task.client, 0) + report.forward_passes
        directions = totals.client_directions.get(task.client, 0) + report.num_directions
        totals.client_directions[task.client] = directions
        duration_s = s_from_ns(task.duration_ns)
        if not is_late:
            self._received(task)
        self._writer.emit(
            update.due_ns,
            "trainer_round",
            {
                "client": task.client,
                "round": task.round,
                "bin": task.bin,
                "iteration": task.iteration,
                "version": task.version,
                "modelled_d_s": duration_s,
                "wait_s": s_from_ns(update.due_ns - task.dispatch_ns),
                "avail_state": "AVL_TRAIN",
                "num_samples": payload.num_samples,
                "stat_utility": payload.stat_utility,
                "loss": payload.loss,
                "jvp": report.jvp,
                "update_norm": _norm(payload),
                "training_budget_s": duration_s,
                "forward_passes": report.forward_passes,
                "num_directions": report.num_directions,
                "forward_passes_total": passes,
                "num_directions_total": directions,
            },
            key=task.client,
            wall={
                "compute_s": report.compute_wall_s,
                **report.phases_s,
                "overran": report.compute_wall_s * self._factor > duration_s,
            },
        )
        self._writer.emit(
            update.due_ns,
            "task_send",
            {
                "client": task.client,
                "task": task.task_id,
                "recv_ns": task.dispatch_ns,
                "send_ns": update.due_ns,
                "send_gate_wait_s": s_from_ns(update.due_ns - task.done_ns) if self._gates else 0.0,
                "due_ns": update.due_ns,
                "staleness": staleness,
            },
            key=task.client,
            wall={"recv_s": s_from_ns(task.dispatch_ns), "send_s": s_from_ns(update.sent_ns)},
        )
        if self._gates and (update.due_ns > task.done_ns or is_late):
            self._withheld(update, staleness, is_accepted=is_accepted, is_late=is_late)
        self._comm(update.due_ns, "up", len(update.payload), task, PayloadKind.GRADIENT, 1)

    def _withheld(self, update: Update, staleness: int, *, is_accepted: bool, is_late: bool) -> None:
        task = update.task
        self._writer.emit(
            update.due_ns,
            "withheld_delivery",
            {
                "client": task.client,
                "due_ns": task.done_ns,
                "delivery_ns": update.due_ns,
                "delay_s": s_from_ns(update.due_ns - task.done_ns),
                "staleness": staleness,
                "accepted": is_accepted,
                "after_abandon": is_late,
                "commit_ns": update.due_ns,
            },
            key=task.client,
        )

    def _received(self, task: Train) -> None:
        self._open.pop(task.client, None)
        self._writer.emit(
            task.dispatch_ns,
            "task_recv",
            {"client": task.client, "round": task.round, "dispatch_ns": task.dispatch_ns, "avail_state": "AVL_TRAIN"},
            key=task.client,
            wall={"mode": self._config.mode.value},
        )

    def abandoned(self, t: Ns, flight: Flight, reason: str) -> None:
        """C13: a slot is freed without an update.

        What the client received is told now: when its late update comes, the stream will be past that time.
        """
        task = self._open.get(flight.client)
        if task is not None:
            self._received(task)
        self._writer.emit(
            t,
            "abandon",
            {
                "client": flight.client,
                "dispatch_ns": flight.dispatch_ns,
                "now_ns": t,
                "age_s": s_from_ns(t - flight.dispatch_ns),
                "reason": reason,
            },
            key=flight.client,
        )

    def utility_belief(self, t: Ns, client: ClientId, *, believed: float, actual: float, age: int) -> None:
        """C10: what the aggregator believed of a client's utility, and what it was; only where selection uses it."""
        if not self._config.selection.policy.name.endswith("oort"):
            return
        self._writer.emit(
            t,
            "utility_belief",
            {
                "client": client,
                "believed": None if math.isnan(believed) else believed,
                "actual": actual,
                "staleness": age,
            },
            key=client,
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

    def world_event(self, t: Ns, event: str, fields: dict[str, object], client: ClientId) -> None:
        """C8 and C14: availability and what is believed of it."""
        self._writer.emit(t, event, fields, key=client)

    def _comm(self, t: Ns, direction: str, size: int, task: Train, kind: PayloadKind, tensors: int) -> None:
        self._writer.emit(
            t,
            "comm",
            {
                "direction": direction,
                "bytes": size,
                "peer": task.client,
                "round": task.round,
                "bin": task.bin,
                "iteration": task.iteration,
                "payload": kind.value,
                "tensors": tensors,
            },
            key=task.client,
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
                "num_stale_rejected": self.totals.stale_rejected,
                "ages_s": [s_from_ns(t - flight.dispatch_ns) for flight in flights],
            },
        )

    def agg_round(
        self, t: Ns, fields: Mapping[str, object], measured: Mapping[str, object], *, committed: bool
    ) -> None:
        """C4: one select-to-commit cycle."""
        now_ns = wall.monotonic_ns()
        if committed:
            self._last_commit_wall_ns, self._last_commit_ns = now_ns, t
        self._writer.emit(t, "agg_round", fields, wall={**measured, **self._pace(t, now_ns)})

    def agg_eval(self, t: Ns, cadence: Cadence, evaluation: Evaluation, *, is_finite: bool) -> None:
        """C3: one evaluation of the global model; that its weights are not finite is said only when it is so."""
        totals = self.totals
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

    def overdue(self, flight: Flight, slack_ns: Ns) -> None:
        """The reorder slack ran out: an invariant of wall mode is broken."""
        self._writer.note(
            "reorder_slack_exhausted",
            {"client": flight.client, "due_ns": flight.due_ns, "slack_s": s_from_ns(slack_ns), "invariant": "failed"},
        )

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        """Something that exists on the wall only."""
        self._writer.note(event, fields)

    def advance(self, watermark: Ns) -> None:
        """Everything before ``watermark`` is complete."""
        self._writer.advance(watermark)

    def progress(self, t: Ns, cadence: Cadence, in_flight: int, *, force: bool = False) -> None:
        """A line for whoever watches, at most twice a second."""
        now_s = wall.monotonic_s()
        if not force and now_s - self._last_progress_s < PROGRESS_EVERY_S:
            return
        self._last_progress_s = now_s
        limits = self._config.limits
        self._writer.note(
            "progress",
            {
                "phase": "train",
                "what": "bins",
                "done": cadence.num_commits,
                "total": limits.max_bins or 0,
                **self._pace(t, wall.monotonic_ns()),
                "engine_s": s_from_ns(t),
                "in_flight": in_flight,
                "bins": cadence.num_commits,
                "cycles": cadence.num_cycles,
                "accuracy": self.totals.final_accuracy,
                "best_accuracy": self.totals.best_accuracy,
            },
        )

    def _pace(self, t: Ns, now_ns: Ns) -> dict[str, float | None]:
        if self._first_dispatch_wall_ns is None or self._first_dispatch_ns is None:
            return {"wall_s": 0.0, "sim_rate": None}
        wall_s = (now_ns - self._first_dispatch_wall_ns) / NS_PER_S
        rate = s_from_ns(t - self._first_dispatch_ns) / wall_s if wall_s > 0 else None
        return {"wall_s": wall_s, "sim_rate": rate}

    def pace_to_last_commit(self) -> tuple[float, float, float | None]:
        """Engine seconds, wall seconds and sim rate from first dispatch to last commit."""
        if self._last_commit_wall_ns is None:
            return 0.0, 0.0, None
        pace = self._pace(self._last_commit_ns, self._last_commit_wall_ns)
        return s_from_ns(self._last_commit_ns), pace["wall_s"] or 0.0, pace["sim_rate"]


def _norm(payload: Payload) -> float:
    vector = payload.vectors[0]
    return math.sqrt(float(vector @ vector))
