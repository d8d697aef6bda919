"""Events of single clients: what each was sent, did, and sent back.

A client's events are told when the aggregator handles its update: what was measured rides on it, and one thread
writes. Their times are logical, so they are equal on both clocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fluxctl.config.model import Config
from fluxctl.engine.dispatcher import DispatchRecord
from fluxctl.engine.ledger import Flight
from fluxctl.engine.messages import Train, Update, Work
from fluxctl.engine.pace import Pace
from fluxctl.engine.payload import Payload
from fluxctl.engine.seed_scalar import checksum_of
from fluxctl.engine.timing import note_timing
from fluxctl.engine.totals import Totals
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import Availability, ClientId, Ns, PayloadKind, s_from_ns


class ClientEvents:
    """Writes what concerns one client.

    Args:
        writer: Where events go.
        config: The run's configuration.
        totals: Counters of the run.
        pace: Learns of the first dispatch.
        state: What a client's device could be asked to do at a time.
        factor: Engine seconds that one wall second of compute stands for.
    """

    def __init__(
        self,
        writer: EventSink,
        config: Config,
        totals: Totals,
        pace: Pace,
        state: Callable[[ClientId, Ns], Availability],
        factor: float,
    ) -> None:
        self._writer = writer
        self._mode = config.mode.value
        self._tells_beliefs = config.selection.policy.name.endswith("oort")  # where selection uses them
        self._gates = config.availability.trace != "syn_0"  # deliveries may have to wait
        is_described = config.messages.update == "seed_scalar"
        self._update_kind = PayloadKind.SEED_SCALAR if is_described else PayloadKind.GRADIENT
        self._totals = totals
        self._pace = pace
        self._state = state
        self._factor = factor
        self._open: dict[ClientId, Train] = {}  # dispatched, and their receipt not yet told

    def dispatch(self, record: DispatchRecord) -> None:
        """C11 and C16: one message to a client."""
        task = record.task
        self._pace.dispatched(task.dispatch_ns)
        self._totals.bytes_down += len(task.payload)
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
                **_work(task.work),
            },
            key=task.client,
        )
        self._comm(task.dispatch_ns, "down", len(task.payload), task, record.kind, record.num_tensors)

    def delivered(
        self, t: Ns, update: Update, payload: Payload, staleness: int, *, is_accepted: bool, is_late: bool
    ) -> None:
        """C5, C6, C7, C12 and C16: what a trainer received, did and sent.

        Args:
            t: Logical time at which the aggregator takes it in hand, at its delivery or later.
            update: The message.
            payload: Its content.
            staleness: Versions committed since its dispatch.
            is_accepted: Whether the staleness policy lets it count.
            is_late: Whether its client had been given up.
        """
        task, report = update.task, update.report
        self._totals.updates += 1
        if not is_late:
            self._received(task)
        self._writer.emit(
            update.due_ns,
            "trainer_round",
            {
                **self._work_done(update, payload),
                "avail_state": self._state(task.client, update.due_ns).value,
                "jvp": report.jvp,
                "update_norm": _norm(payload),
                **self._rebuilt(payload),
                "training_budget_s": s_from_ns(task.duration_ns),
                "num_directions": report.num_directions,
                "num_directions_total": self._totals.client_directions[task.client],
            },
            key=task.client,
            wall={**report.phases_s, **self._compute(update)},
        )
        self._sent(t, update, staleness, is_accepted=is_accepted, is_late=is_late)

    def measured(self, t: Ns, update: Update, payload: Payload, staleness: int, *, is_late: bool) -> None:
        """B17, with C6, C7, C12 and C16: what a client that only evaluates received, did and sent."""
        self._totals.evaluations += 1
        if not is_late:
            self._received(update.task)
        self._writer.emit(
            update.due_ns,
            "trainer_eval",
            self._work_done(update, payload),
            key=update.task.client,
            wall=self._compute(update),
        )
        self._sent(t, update, staleness, is_accepted=True, is_late=is_late)

    def _work_done(self, update: Update, payload: Payload) -> dict[str, object]:
        """Count a client's work, note its times (C15); what its event says of it."""
        task, report, totals = update.task, update.report, self._totals
        for time in report.times:
            note_timing(self._writer, time, task, task.client)
        totals.forward_passes += report.forward_passes
        totals.directions += report.num_directions
        totals.bytes_up += len(update.payload)
        passes = totals.client_passes[task.client] = totals.client_passes.get(task.client, 0) + report.forward_passes
        directions = totals.client_directions.get(task.client, 0) + report.num_directions
        totals.client_directions[task.client] = directions
        return {
            "client": task.client,
            "round": task.round,
            "bin": task.bin,
            "iteration": task.iteration,
            "version": task.version,
            "modelled_d_s": s_from_ns(task.duration_ns),
            "wait_s": s_from_ns(update.due_ns - task.dispatch_ns),
            "num_samples": payload.num_samples,
            "stat_utility": payload.stat_utility,
            "loss": payload.loss,
            "forward_passes": report.forward_passes,
            "forward_passes_total": passes,
        }

    def _rebuilt(self, payload: Payload) -> dict[str, object]:
        """B22: which vector a described update turned out to be."""
        return {"rebuilt_checksum": f"{checksum_of(payload.vectors[0]):08x}"} if payload.body else {}

    def _compute(self, update: Update) -> dict[str, object]:
        compute_s = update.report.compute_wall_s
        return {"compute_s": compute_s, "overran": compute_s * self._factor > s_from_ns(update.task.duration_ns)}

    def _sent(self, t: Ns, update: Update, staleness: int, *, is_accepted: bool, is_late: bool) -> None:
        task = update.task
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
            wall={"recv_s": s_from_ns(update.recv_ns), "send_s": s_from_ns(update.sent_ns)},
        )
        if self._gates and (update.due_ns > task.done_ns or is_late):
            self._withheld(t, update, staleness, is_accepted=is_accepted, is_late=is_late)
        kind = self._update_kind if task.work is Work.TRAIN else PayloadKind.MEASUREMENT
        self._comm(update.due_ns, "up", len(update.payload), task, kind, int(kind is PayloadKind.GRADIENT))

    def _withheld(self, t: Ns, update: Update, staleness: int, *, is_accepted: bool, is_late: bool) -> None:
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
                "commit_ns": t,
            },
            key=task.client,
        )

    def _received(self, task: Train) -> None:
        self._open.pop(task.client, None)
        self._writer.emit(
            task.dispatch_ns,
            "task_recv",
            {
                "client": task.client,
                "round": task.round,
                "dispatch_ns": task.dispatch_ns,
                "avail_state": self._state(task.client, task.dispatch_ns).value,
            },
            key=task.client,
            wall={"mode": self._mode},
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
                **_work(flight.work),
            },
            key=flight.client,
        )

    def utility_belief(self, t: Ns, client: ClientId, *, believed: float, actual: float, age: int) -> None:
        """C10: what the aggregator believed of a client's utility, and what it was; only where selection uses it."""
        if not self._tells_beliefs:
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


def _work(work: Work) -> dict[str, object]:
    """Says so where a client is not asked to train."""
    return {} if work is Work.TRAIN else {"work": work.value}


def _norm(payload: Payload) -> float:
    vector = payload.vectors[0]
    return math.sqrt(float(vector @ vector))
