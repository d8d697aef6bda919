"""The body of the aggregator thread: select, dispatch, collect, commit, evaluate, until a stop rule fires.

One loop serves both styles. Sync: C clients are asked at once, the first K in logical order form the cycle, and what
is left at the barrier is cancelled. Async: C are kept in flight, every K updates form a cycle, and the others carry
over. The aggregator's own time is *logical*: it moves only to the due time of what is handled, so it reads the same
on both clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluxctl import wall
from fluxctl.config.model import Config, TrainerErrorPolicy
from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.clock import Clock
from fluxctl.engine.collector import Collector, StopRequested, TrainerFailedError
from fluxctl.engine.commit import BinTrainer, GateOutcome
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.ledger import Ledger
from fluxctl.engine.messages import TrainerFailure, Update
from fluxctl.engine.payload import decode
from fluxctl.engine.pool import Contribution
from fluxctl.engine.recorder import Recorder
from fluxctl.errors import RunBrokeError
from fluxctl.learn.evaluate import Evaluation
from fluxctl.policies.staleness.base import StalenessPolicy, StalenessView
from fluxctl.policies.stopping import EvalPoint, StopDecision, StopState
from fluxctl.types import NS_PER_S, ClientId, Ns, Verdict, ns_from_s, s_from_ns


class RegistrationError(RunBrokeError):
    """Trainers are missing when the first selection is due."""

    code = "registration"


@dataclass(frozen=True, slots=True)
class Cycle:
    """Updates of one select-to-commit cycle, in logical order."""

    contributions: tuple[Contribution, ...]
    started_ns: Ns
    started_wall_ns: Ns


class Aggregator:
    """Holds the global model and drives the run.

    Args:
        config: The run's configuration.
        clock: The engine's clock.
        ledger: Client states.
        dispatcher: Selection and sending.
        collector: Receiving in order.
        bin_trainer: Pool, gate, server step and evaluation.
        staleness: Which late updates count.
        stopping: Stop rules, before the first evaluation.
        recorder: Telemetry.
        bins_per_round: Bins of one pass over the data.
        num_trainers: Trainer threads that must register.
    """

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        ledger: Ledger,
        dispatcher: Dispatcher,
        collector: Collector,
        bin_trainer: BinTrainer,
        staleness: StalenessPolicy,
        stopping: StopState,
        recorder: Recorder,
        bins_per_round: int,
        num_trainers: int,
    ) -> None:
        self._config = config
        self._clock = clock
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._collector = collector
        self._bin = bin_trainer
        self._staleness = staleness
        self._stopping = stopping
        self._recorder = recorder
        self._num_trainers = num_trainers
        self._retries: dict[ClientId, int] = {}
        self._last_cycle_wall_ns: Ns = 0
        self._held = 0  # slots in use when the cycle began
        self._stop_reason: str | None = None
        self.logical_now: Ns = 0
        self.cadence = Cadence(bins_per_round)
        self.stop: StopDecision | None = None

    def run(self) -> None:
        """Run until a stop rule fires or somebody asks to stop, then stop the clock."""
        try:
            self._await_trainers()
            self._evaluate()
            while self.stop is None:
                self._run_cycle()
                self._recorder.progress(self.logical_now, self.cadence, self._held)
        except StopRequested as request:
            self.stop = StopDecision(Verdict.INTERRUPTED, str(request), rule="interrupt")
        self._clock.stop()

    def request_stop(self, reason: str) -> None:
        """Ask for a clean end before the next update; callable from any thread."""
        self._stop_reason = reason

    def _await_trainers(self) -> None:
        """Hold the first selection until enough trainers have registered."""
        needed = min(self._config.clients.min_clients or self._num_trainers, self._num_trainers)
        deadline = ns_from_s(self._config.engine.register_timeout_s * self._config.engine.wall_factor)
        registered = self._dispatcher.registered
        while len(registered) < needed:
            in_time = self._clock.wait(self._collector.inbox, deadline)
            self._collector.receive()
            if not in_time and len(registered) < needed:
                missing = sorted(set(range(self._num_trainers)) - registered)
                raise RegistrationError(
                    f"only {len(registered)} of {needed} trainers registered; missing: {', '.join(map(str, missing))}",
                    hint="raise engine.register_timeout_s, or lower clients.min_clients",
                )

    def _run_cycle(self) -> None:
        started_ns, started_wall_ns = self._clock.now(), wall.monotonic_ns()
        self._dispatcher.fill(self.logical_now, self.cadence, self._bin.model(self.cadence))
        self._held = self._ledger.num_in_flight
        contributions = self._collect()
        if not contributions:
            self.stop = StopDecision(Verdict.STARVED, "no client is left that could train", rule="starved")
            return
        self._close_cycle(Cycle(tuple(contributions), started_ns, started_wall_ns))
        if self.stop is None:  # a run that has just ended by itself was not interrupted
            self._heed_stop_request()

    def _heed_stop_request(self) -> None:
        if self._stop_reason is not None:
            raise StopRequested(self._stop_reason)

    def _collect(self) -> list[Contribution]:
        """Take updates in logical order until K count; fewer only when nobody is left to deliver one."""
        goal, contributions = self._config.aggregation.goal, list[Contribution]()
        while len(contributions) < goal:
            self._heed_stop_request()
            arrival = self._collector.next(goal - len(contributions))
            if arrival is None:
                if self._dispatcher.fill(self.logical_now, self.cadence, self._bin.model(self.cadence)):
                    continue
                break
            due_ns = arrival.due_ns if isinstance(arrival, Update) else arrival.task.earliest_due_ns
            self.logical_now = max(self.logical_now, due_ns)
            if isinstance(arrival, TrainerFailure):
                self._survive(arrival)
            elif (contribution := self._judge(arrival)) is not None:
                contributions.append(contribution)
        return contributions

    def _judge(self, update: Update) -> Contribution | None:
        """Record a delivered update and ask the staleness policy whether it counts."""
        task, cadence = update.task, self.cadence
        payload = decode(update.payload)
        staleness = cadence.version - task.version
        self._recorder.delivered(update, payload, staleness)
        self._dispatcher.stamp(task.client, Triple(task.version, task.bin, task.iteration))
        decision = self._staleness.judge(
            StalenessView(
                update_version=task.version,
                update_round=task.round,
                update_bin=task.bin,
                update_iteration=task.iteration,
                version=cadence.version,
                round=cadence.round,
                bin=cadence.bin,
                iteration=cadence.iteration,
            )
        )
        if decision.accepted:
            return Contribution(update, payload, staleness, decision.rate_staleness)
        self._recorder.totals.stale_rejected += 1
        self._ledger.reject(task.client)
        self._dispatcher.fill(self.logical_now, cadence, self._bin.model(cadence))
        return None

    def _survive(self, failure: TrainerFailure) -> None:
        """A trainer raised and the run goes on: retry the client, or go on without it."""
        client, policy = failure.task.client, self._config.engine.on_trainer_error
        self._recorder.note("trainer_failed", {"client": client, "error": failure.error, "policy": policy.value})
        self._ledger.reject(client)
        model = self._bin.model(self.cadence)
        if policy is TrainerErrorPolicy.RETRY:
            self._retries[client] = self._retries.get(client, 0) + 1
            if self._retries[client] > self._config.engine.trainer_retries:
                raise TrainerFailedError(failure)
            self._dispatcher.forget_weights(client)
            self._dispatcher.dispatch(client, self.logical_now, self.cadence, model)
            return
        self._dispatcher.exclude(client)
        self._dispatcher.fill(self.logical_now, self.cadence, model)

    def _close_cycle(self, cycle: Cycle) -> None:
        """Gate, commit or retry, free the slots, record, and evaluate the stop rules."""
        arrived_wall_ns = wall.monotonic_ns()
        snapshot, cohort = self.cadence, cycle.contributions
        outcome = self._bin.close(cohort, snapshot)
        aggregate_s = (wall.monotonic_ns() - arrived_wall_ns) / NS_PER_S
        held = self._ledger.num_in_flight
        flights = [self._ledger.commit(contribution.update.task.client) for contribution in cohort]
        num_surplus = self._cancel_surplus() if self._config.aggregation.style == "sync" else 0
        self._update_beliefs(cohort)
        self.cadence = snapshot.after_retry() if outcome.reason is None else snapshot.after_commit()
        evaluated_s = self._evaluate() if outcome.reason is not None else 0.0
        self._stopping = self._stopping.tick(s_from_ns(self.logical_now))
        self.stop = self._stopping.decision
        span_start = self._last_cycle_wall_ns if self._config.aggregation.style == "async" else 0
        self._recorder.agg_round(
            self.logical_now,
            self._round_fields(cycle, snapshot, outcome),
            {
                "drain_tail_s": 0.0,
                "aggregate_s": aggregate_s,
                "eval_s": evaluated_s,
                "intrinsic_span_s": (arrived_wall_ns - max(span_start, cycle.started_wall_ns)) / NS_PER_S,
                **_arrival_order(cohort),
            },
            committed=outcome.reason is not None,
        )
        self._last_cycle_wall_ns = arrived_wall_ns
        after = self._ledger.num_in_flight
        self._recorder.residence(self.logical_now, held, after, len(cohort), num_surplus, flights)
        oldest = self._ledger.oldest_dispatch_ns()
        self._recorder.advance(self.logical_now if oldest is None else min(oldest, self.logical_now))

    def _cancel_surplus(self) -> int:
        """Sync: the barrier is reached; whatever is still in flight is dropped and counted."""
        surplus = self._collector.drop_surplus()
        for flight in surplus:
            self._dispatcher.cancel(flight)
        self._recorder.totals.surplus += len(surplus)
        return len(surplus)

    def _update_beliefs(self, cohort: tuple[Contribution, ...]) -> None:
        beliefs, selection_round = self._dispatcher.beliefs, self._dispatcher.num_selections
        for contribution in cohort:
            client = contribution.update.task.client
            beliefs.utility[client] = contribution.payload.stat_utility
            beliefs.duration_s[client] = s_from_ns(contribution.update.task.duration_ns)
            beliefs.last_round[client] = selection_round
            beliefs.num_commits[client] += 1

    def _evaluate(self) -> float:
        """Evaluate the current version and let the stop rules see it; returns wall seconds."""
        start_ns = wall.monotonic_ns()
        evaluation = self._bin.evaluate()
        self._recorder.agg_eval(self.logical_now, self.cadence, evaluation)
        self._stopping = self._stopping.update(self._eval_point(evaluation))
        self.stop = self._stopping.decision
        self._bin.keep_if_good(evaluation)
        return (wall.monotonic_ns() - start_ns) / NS_PER_S

    def _eval_point(self, evaluation: Evaluation) -> EvalPoint:
        return EvalPoint(
            bins=self.cadence.num_commits,
            round=self.cadence.round,
            engine_s=s_from_ns(self.logical_now),
            accuracy=evaluation.accuracy,
            loss=evaluation.loss,
            mcc=evaluation.mcc,
            one_class=sum(count > 0 for count in evaluation.predicted_counts) == 1,
            finite=self._bin.is_finite(),
        )

    def _round_fields(self, cycle: Cycle, snapshot: Cadence, outcome: GateOutcome) -> dict[str, object]:
        """C4, but for what was measured on the wall."""
        config, now, cohort = self._config, self.logical_now, cycle.contributions
        tasks = [contribution.update.task for contribution in cohort]
        dues = [contribution.update.due_ns for contribution in cohort]
        return {
            "round": snapshot.round,
            "cycle": snapshot.num_cycles,
            "goal": config.aggregation.goal,
            "goal_count": len(cohort),
            "in_flight": self._ledger.num_in_flight,
            "updates_in_queue": sum(1 for f in self._ledger.in_flight() if f.due_ns <= now),
            "staleness": [contribution.staleness for contribution in cohort],
            "stat_utility": [contribution.payload.stat_utility for contribution in cohort],
            "trainer_speed_s": [s_from_ns(task.duration_ns) for task in tasks],
            "contributing_trainers": [task.client for task in tasks],
            "contributor_intervals": [
                {"client": task.client, "dispatch": s_from_ns(task.dispatch_ns), "commit": s_from_ns(now)}
                for task in tasks
            ],
            "visibility_lag_s": [s_from_ns(now - due) for due in dues],
            "barrier_wait_s": s_from_ns(now - dues[0]),
            "cycle_bin": snapshot.bin,
            "cycle_iteration": snapshot.iteration,
            "grad_pool_size": len(cohort),
            "cached_pool_size": outcome.pool_size - len(cohort),
            "bin": self.cadence.bin,
            "iteration": self.cadence.iteration,
            "version": self.cadence.version,
            "engine_s": s_from_ns(now),
            "var": outcome.variance,
            "var_threshold": config.gate.var_threshold,
            "var_good": outcome.is_natural,
            "commit_reason": outcome.reason.value if outcome.reason is not None else None,
            "stopping_policy": config.gate.stopping_policy,
            "agg_rate_type": config.aggregation.rate.name,
            "rates": outcome.rates,
            "gated_total": self._recorder.totals.gated + outcome.num_gated,
            "redundant_suppressed_total": self._dispatcher.num_suppressed,
            "surplus_total": self._recorder.totals.surplus,
            "dynamic_c": config.aggregation.concurrency,
            "num_eligible": self._dispatcher.num_eligible(self.cadence),
            "grad_norm": outcome.aggregate_norm,
            "model_checksum": outcome.checksum,
            "forward_passes_total": self._recorder.totals.forward_passes,
            "stop_reason": self.stop.reason if self.stop is not None else None,
        }


def _arrival_order(cohort: tuple[Contribution, ...]) -> dict[str, object]:
    """How the clock delivered the cohort: physical order, inversions against the logical one, worst lateness."""
    sent = [contribution.update.sent_ns for contribution in cohort]
    order = sorted(range(len(cohort)), key=lambda index: sent[index])
    inversions = sum(sent[i] > sent[j] for i in range(len(sent)) for j in range(i + 1, len(sent)))
    lateness_ns = max(contribution.update.sent_ns - contribution.update.due_ns for contribution in cohort)
    return {
        "arrival_order": [cohort[index].update.task.client for index in order],
        "inversions": inversions,
        "worst_lateness_s": s_from_ns(lateness_ns),
    }
