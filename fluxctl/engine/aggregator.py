"""The body of the aggregator thread: select, dispatch, collect, commit, evaluate, until a stop rule fires.

One loop serves both styles. Sync: C clients are asked at once, the first K in logical order form the cycle, and what is
left at the barrier is cancelled. Async: C are kept in flight, every K updates form a cycle, and the others carry over.
The aggregator's own time is *logical*: it moves only to the time of what is handled, so it reads the same on both
clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fluxctl import wall
from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.clock import Clock
from fluxctl.engine.collector import StopRequested
from fluxctl.engine.commit import BinTrainer, GateOutcome
from fluxctl.engine.control import GoalControl
from fluxctl.engine.examiner import Examiner
from fluxctl.engine.intake import Intake
from fluxctl.engine.ledger import Ledger
from fluxctl.engine.pool import Contribution
from fluxctl.engine.recorder import Recorder
from fluxctl.engine.round_event import arrival_order, round_fields
from fluxctl.errors import RunBrokeError
from fluxctl.policies.stopping import StopDecision, StopState
from fluxctl.types import NS_PER_S, Ns, Verdict, ns_from_s


class RegistrationError(RunBrokeError):
    """Trainers are missing when the first selection is due."""

    code = "registration"


@dataclass(frozen=True, slots=True)
class Cycle:
    """Updates of one select-to-commit cycle, in logical order."""

    contributions: tuple[Contribution, ...]
    started_wall_ns: Ns


class Aggregator:
    """Holds the global model and drives the run.

    Args:
        config: The run's configuration.
        clock: The engine's clock.
        ledger: Client states.
        intake: Dispatching and taking in.
        control: What moves K and C.
        bin_trainer: Pool, gate, server step and evaluation.
        examiner: Evaluation and stop rules.
        recorder: Telemetry.
        bins_per_round: Bins of one pass over the data.
        num_trainers: Trainer threads that must register.
        evaluation_charge: Engine time of an evaluation that took so many wall seconds.
    """

    def __init__(
        self,
        *,
        config: Config,
        clock: Clock,
        ledger: Ledger,
        intake: Intake,
        control: GoalControl,
        bin_trainer: BinTrainer,
        examiner: Examiner,
        recorder: Recorder,
        bins_per_round: int,
        num_trainers: int,
        evaluation_charge: Callable[[float], Ns] = lambda _: 0,
    ) -> None:
        self._config = config
        self._clock = clock
        self._ledger = ledger
        self._intake = intake
        self._dispatcher = intake.dispatcher
        self._collector = intake.collector
        self._control = control
        self._bin = bin_trainer
        self._examiner = examiner
        self._recorder = recorder
        self._num_trainers = num_trainers
        self._evaluation_charge = evaluation_charge
        self._is_async = config.aggregation.style == "async"
        self._last_arrival_wall_ns: Ns | None = None  # of the update that closed the last cycle
        self._held = 0  # slots in use when the cycle began
        self._num_eligible = 0  # clients that may be asked, at the end of the last cycle
        self._stop_reason: str | None = None
        self.cadence = Cadence(bins_per_round)
        self.stop: StopDecision | None = None
        intake.heed = self._heed_stop_request

    @property
    def stopping(self) -> StopState:
        """Where the stop rules stand."""
        return self._examiner.stopping

    @property
    def logical_now(self) -> Ns:
        """Logical time."""
        return self._intake.now

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
        started_wall_ns = wall.monotonic_ns()
        model = self._bin.model(self.cadence)
        self._intake.refill(self.cadence, model)
        self._held = self._ledger.num_in_flight
        contributions = self._intake.collect(self._dispatcher.goal, self.cadence, model)
        is_cut_short = self._intake.is_out_of_time or self._intake.is_starved
        if contributions and not is_cut_short:
            self._close_cycle(Cycle(tuple(contributions), started_wall_ns))
        else:
            self._tick()
            if self.stop is None and self._intake.is_starved:
                self.stop = StopDecision(Verdict.STARVED, self._intake.starvation(), rule="starved")
        if self.stop is None:  # a run that has just ended by itself was not interrupted
            self._heed_stop_request()

    def _heed_stop_request(self) -> None:
        if self._stop_reason is not None:
            raise StopRequested(self._stop_reason)

    def _tick(self) -> None:
        """Let the stop rules see the time."""
        self._examiner.tick(self.logical_now)
        self.stop = self._examiner.decision

    def _close_cycle(self, cycle: Cycle) -> None:
        """Gate, commit or retry, free the slots, record, and evaluate the stop rules."""
        arrived_wall_ns = wall.monotonic_ns()
        snapshot, cohort = self.cadence, cycle.contributions
        timer = self._recorder.timer()
        with timer("aggregate"):
            outcome = self._bin.close(cohort, snapshot)
        self._recorder.totals.gated += outcome.num_gated
        aggregate_s = (wall.monotonic_ns() - arrived_wall_ns) / NS_PER_S
        held = self._ledger.num_in_flight
        flights = [self._ledger.commit(c.update.task.client) for c in cohort if not c.is_late]
        num_surplus = 0 if self._is_async else self._cancel_surplus()
        self._update_beliefs(cohort)
        self.cadence = snapshot.after_retry() if outcome.reason is None else snapshot.after_commit()
        evaluated_s = 0.0
        if outcome.reason is not None:
            with timer("evaluate"):
                evaluated_s = self._evaluate()
        self._tick()
        self._record_round(cycle, snapshot, outcome, arrived_wall_ns, aggregate_s, evaluated_s)
        self._recorder.timed(timer.times, snapshot)
        after = self._ledger.num_in_flight
        self._control.after_cycle(self.logical_now, cohort, snapshot, outcome, self._num_eligible + after)
        self._recorder.cycles.residence(self.logical_now, held, after, len(flights), num_surplus, flights)
        if outcome.reason is not None:
            self._charge(evaluated_s)
        oldest = self._ledger.oldest_dispatch_ns()
        self._recorder.advance(self.logical_now if oldest is None else min(oldest, self.logical_now))

    def _charge(self, evaluated_s: float) -> None:
        """Let the evaluation of a commit take its engine time.

        Updates of async clients come in meanwhile, and a busy server takes none, so the clock has to get there as well.
        """
        charge_ns = self._evaluation_charge(evaluated_s)
        self._intake.pass_time(charge_ns)
        if charge_ns and self._is_async:
            self._collector.reach(self.logical_now)

    def _record_round(
        self,
        cycle: Cycle,
        snapshot: Cadence,
        outcome: GateOutcome,
        arrived_wall_ns: Ns,
        aggregate_s: float,
        evaluated_s: float,
    ) -> None:
        self._num_eligible = self._intake.roster.eligible(self.logical_now, self.cadence.triple).num
        self._recorder.cycles.agg_round(
            self.logical_now,
            round_fields(
                self._config,
                self._ledger,
                self._dispatcher,
                self._recorder.totals,
                now=self.logical_now,
                cohort=cycle.contributions,
                before=snapshot,
                after=self.cadence,
                outcome=outcome,
                num_eligible=self._num_eligible,
                stop_reason=self.stop.reason if self.stop is not None else None,
            ),
            {
                "drain_tail_s": 0.0,
                "aggregate_s": aggregate_s,
                "eval_s": evaluated_s,
                "wait_s": (arrived_wall_ns - max(cycle.started_wall_ns, self._last_arrival_wall_ns or 0)) / NS_PER_S,
                "intrinsic_span_s": (arrived_wall_ns - self._span_start_wall_ns(cycle)) / NS_PER_S,
                **arrival_order(cycle.contributions),
            },
            committed=outcome.reason is not None,
        )
        self._last_arrival_wall_ns = arrived_wall_ns

    def _span_start_wall_ns(self, cycle: Cycle) -> Ns:
        """Where a cycle's intrinsic span begins.

        Async clients go on working while the server aggregates and evaluates, so spans follow each other without a gap
        and add up to the time since the first dispatch. A sync cycle begins with its own first dispatch.
        """
        last = self._last_arrival_wall_ns if self._is_async else None
        return cycle.started_wall_ns if last is None else last

    def _cancel_surplus(self) -> int:
        """Sync: the barrier is reached; whatever is still in flight is dropped and counted."""
        surplus = self._collector.drop_surplus()
        for flight in surplus:
            self._dispatcher.cancel(flight)
        self._recorder.totals.surplus += len(surplus)
        return len(surplus)

    def _update_beliefs(self, cohort: tuple[Contribution, ...]) -> None:
        beliefs, number = self._dispatcher.cohorts.beliefs, self._dispatcher.cohorts.num_selections
        for contribution in cohort:
            task, utility = contribution.update.task, contribution.payload.stat_utility
            self._recorder.clients.utility_belief(
                self.logical_now,
                task.client,
                believed=beliefs.utility_of(task.client),
                actual=utility,
                age=beliefs.age_of(task.client, number),
            )
            beliefs.contributed(task.client, utility, task.duration_ns, number)

    def _evaluate(self) -> float:
        """Look at the current version; returns wall seconds."""
        start_ns = wall.monotonic_ns()
        self._examiner.examine(self.logical_now, self.cadence)
        self.stop = self._examiner.decision
        return (wall.monotonic_ns() - start_ns) / NS_PER_S
