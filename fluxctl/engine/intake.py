"""Taking updates in: in logical order, until K of them count.

Between updates the aggregator has other turns, each at its own logical time: an update that is ready but cannot be
delivered, a slot that is freed because its client is silent or gone, a client that becomes reachable while slots are
free. Logical time moves to whatever is first, on both clocks alike, and never beyond the budget: what is due later is
not taken in, and nobody is asked any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fluxctl.config.model import Config, TrainerErrorPolicy
from fluxctl.engine.agenda import Agenda, Entry, Turn
from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.collector import Collector, Handed, TrainerFailedError
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.ledger import ClientState, Ledger
from fluxctl.engine.messages import TrainerFailure, Update, Work
from fluxctl.engine.payload import Payload, decode
from fluxctl.engine.pool import Contribution
from fluxctl.engine.recorder import Recorder
from fluxctl.engine.roster import Roster
from fluxctl.engine.sending import GlobalModel
from fluxctl.engine.world_log import WorldLog
from fluxctl.policies.staleness.base import StalenessPolicy, StalenessView
from fluxctl.types import NEVER, ClientId, Ns, s_from_ns


@dataclass
class Intake:
    """Collects the contributions of a cycle.

    Args:
        config: The run's configuration.
        ledger: Client states.
        agenda: What is foreseen for open dispatches.
        roster: Who may be asked.
        dispatcher: Fills free slots.
        collector: Receives in order.
        open_update: Reads an update's bytes.
        staleness: Which late updates count.
        recorder: Telemetry.
        world_log: Telemetry of availability.
        budget_ns: End of the engine-time budget; logical time does not pass it.
        heed: Raises if the run was asked to stop.
    """

    config: Config
    ledger: Ledger
    agenda: Agenda
    roster: Roster
    dispatcher: Dispatcher
    collector: Collector
    open_update: Callable[[bytes], Payload]
    staleness: StalenessPolicy
    recorder: Recorder
    world_log: WorldLog
    budget_ns: Ns
    heed: Callable[[], None] = lambda: None
    now: Ns = 0  # logical time
    is_starved: bool = False  # nobody is at work, and nobody will be reachable within the budget
    is_out_of_time: bool = False  # the budget is used up
    _goal: int = 0
    _num_lost: int = 0  # members of the cycle that were given up
    _wake_ns: Ns | None = None  # when somebody becomes reachable while slots are free
    _retries: dict[ClientId, int] = field(default_factory=dict)

    def refill(self, cadence: Cadence, model: GlobalModel) -> int:
        """Fill free slots now, and know when to try again if there were too few clients.

        Returns:
            How many clients were asked; 0 once the budget is used up.
        """
        self._wake_ns = None
        if self.now >= self.budget_ns:
            return 0
        num = self.dispatcher.fill(self.now, cadence, model)
        if self.dispatcher.is_short:
            self._wake_ns = self.roster.next_reachable_ns(self.now, self.budget_ns, cadence.triple)
        return num

    def collect(self, goal: int, cadence: Cadence, model: GlobalModel) -> list[Contribution]:
        """Take updates in logical order until ``goal`` of them count.

        Returns:
            The contributions; fewer when members were lost and the cycle shrinks, or when the population is smaller.
            Fewer as well, and no cycle, when the budget is used up or nobody else can deliver within it: see
            ``is_out_of_time`` and ``is_starved``.
        """
        self._goal, contributions = min(goal, self._most_updates), list[Contribution]()
        self._num_lost = 0
        self.is_starved = False
        while len(contributions) < self._goal:
            self.heed()
            if self._awaits_nothing():
                if self._is_over(contributions, cadence, model):
                    break
                continue
            until = self._next_turn_ns()
            handed = self.collector.next(self._num_wanted(len(contributions)), until)
            if handed is not None:
                contribution = self._handle(handed, cadence, model)
                if contribution is not None:
                    contributions.append(contribution)
                    if contribution.is_late and len(contributions) < self._goal:
                        self._refill_if_short(cadence, model)
            elif until is not None:
                self._take_turn(until, cadence, model)
                if self.now >= self.budget_ns:
                    self.is_out_of_time = True
                    break
        return contributions

    def _is_over(self, contributions: list[Contribution], cadence: Cadence, model: GlobalModel) -> bool:
        """Nobody is at work: ask once more, and say whether the cycle ends here."""
        if self.now >= self.budget_ns:
            self.is_out_of_time = True
            return True
        if self.refill(cadence, model) or self._wake_ns is not None:
            return False
        self.is_starved = not (contributions and self._shrinks)  # one that shrinks closes with what there is
        return True

    def starvation(self) -> str:
        """Why nobody can train."""
        idle = self.roster.next_reachable_ns(self.now, NEVER - 1, Triple(-1, -1, -1))
        given_up = self.ledger.earliest()
        times = (idle, self.agenda.next_ns(), None if given_up is None else given_up.due_ns)
        at = min((t for t in times if t is not None), default=None)
        if at is None:
            return "no client is left that could train, and none will come back"
        return (
            f"no client can train before the budget of {s_from_ns(self.budget_ns):g} engine seconds ends; "
            f"the next one is reachable at {s_from_ns(at):g} s"
        )

    def _awaits_nothing(self) -> bool:
        """Whether nobody is at work and nothing that is foreseen lies within the budget."""
        if self.ledger.awaits_any:
            return False
        late = self.ledger.earliest()  # of a client that was given up
        times = (self.agenda.next_ns(), self._wake_ns, None if late is None else late.due_ns)
        return all(t is None or t > self.budget_ns for t in times)

    def _num_wanted(self, num_contributions: int) -> int:
        """Updates that must be here before there is anything to do; one, if it may lead to a dispatch."""
        may_refill = self.staleness.can_reject and self.config.aggregation.style == "async"
        return 1 if may_refill or self.dispatcher.is_short else self._goal - num_contributions

    @property
    def _most_updates(self) -> int:
        """Updates that a cycle can wait for: one of each client that can train at all."""
        return max(1, self.roster.num_members)

    @property
    def _shrinks(self) -> bool:
        """Whether a cycle goes on without a member that is lost, instead of replacing it."""
        return self.config.aggregation.style == "sync" and self.config.availability.on_lost == "shrink"

    def _next_turn_ns(self) -> Ns | None:
        """When the aggregator has something else to do; the end of the budget, if an update may come after it."""
        times = [t for t in (self.agenda.next_ns(), self._wake_ns) if t is not None]
        if not times and self.ledger.latest_due_ns <= self.budget_ns:
            return None
        return min((*times, self.budget_ns))

    def _take_turn(self, t: Ns, cadence: Cadence, model: GlobalModel) -> None:
        """Logical time is ``t``: give up, take back, and fill what is free."""
        if self.ledger.num_in_flight == 0:
            self.recorder.note("waited_for_clients", {"from_ns": self.now, "to_ns": t})
        self._advance(t)
        for entry in self.agenda.pop_until(t):
            self._turn(entry)
        if not self._shrinks or self._wake_ns is not None:
            self.refill(cadence, model)

    def _turn(self, entry: Entry) -> None:
        flight, plan = entry.flight, entry.plan
        if entry.turn is Turn.BACK:
            self.ledger.resolve(flight.client)
        elif entry.turn is Turn.WITHHELD:
            if flight.state is ClientState.COMPUTING:
                self.ledger.withhold(flight.client)
        else:
            is_lost = plan.delivery_ns >= NEVER
            self.recorder.clients.abandoned(self.now, flight, entry.reason)
            self.ledger.abandon(flight.client, lost=is_lost)
            self.recorder.totals.abandoned += 1
            if is_lost:
                self.dispatcher.cancel(flight)
            if plan.back_ns < NEVER:
                self.agenda.add_return(entry, max(self.now, plan.back_ns))
            self._num_lost += flight.work is Work.TRAIN
            if self._shrinks:
                self._goal = min(self._goal, self.dispatcher.concurrency - self._num_lost)

    def pass_time(self, ns: Ns) -> None:
        """Let logical time go on by ``ns``, at most to the end of the budget."""
        if ns:
            self._advance(min(self.now + ns, self.budget_ns))

    def _advance(self, t: Ns) -> None:
        self.now = max(self.now, t)
        self.world_log.advance(self.now)

    def _handle(self, handed: Handed, cadence: Cadence, model: GlobalModel) -> Contribution | None:
        arrival = handed.arrival
        self._advance(arrival.due_ns if isinstance(arrival, Update) else arrival.task.earliest_due_ns)
        if isinstance(arrival, TrainerFailure):
            self._judge_failure(handed, arrival, cadence, model)
            return None
        if arrival.task.work is Work.EVALUATE:
            self._note_measurement(handed, arrival, cadence, model)
            return None
        return self._judge(handed, arrival, cadence, model)

    def _note_measurement(self, handed: Handed, reply: Update, cadence: Cadence, model: GlobalModel) -> None:
        """A client has evaluated; it can be asked to train now."""
        client, payload = reply.task.client, decode(reply.payload)
        recorder, cohorts = self.recorder.clients, self.dispatcher.cohorts
        beliefs, number = cohorts.beliefs, cohorts.num_selections
        staleness = cadence.version - reply.task.version
        recorder.measured(self.now, reply, payload, staleness, is_late=handed.is_late)
        believed, age = beliefs.utility_of(client), beliefs.age_of(client, number)
        recorder.utility_belief(self.now, client, believed=believed, actual=payload.stat_utility, age=age)
        beliefs.measured(client, payload.stat_utility, number)
        if not handed.is_late:
            self.ledger.finish(client)
        self._refill_if_short(cadence, model)

    def _judge(self, handed: Handed, update: Update, cadence: Cadence, model: GlobalModel) -> Contribution | None:
        """Record a delivered update and ask the staleness policy whether it counts."""
        task = update.task
        payload = self.open_update(update.payload)
        decision = self.staleness.judge(
            StalenessView(
                update_version=task.version,
                update_round=task.round,
                update_bin=task.bin,
                update_iteration=task.iteration,
                version=cadence.version,
                round=cadence.round,
                bin=cadence.bin,
                iteration=cadence.iteration,
                age_s=s_from_ns(self.now - task.dispatch_ns),
            )
        )
        staleness = cadence.version - task.version
        self.recorder.clients.delivered(
            self.now, update, payload, staleness, is_accepted=decision.accepted, is_late=handed.is_late
        )
        self.roster.stamp(task.client, Triple(task.version, task.bin, task.iteration))
        self._retries.pop(task.client, None)
        if decision.accepted:
            return Contribution(update, payload, staleness, decision.rate_staleness, handed.is_late)
        self.recorder.totals.stale_rejected += 1
        if handed.is_late:
            self._refill_if_short(cadence, model)
        else:
            self.ledger.reject(task.client)
            self.refill(cadence, model)
        return None

    def _refill_if_short(self, cadence: Cadence, model: GlobalModel) -> None:
        """A client can be asked again: it may be the one that a free slot lacks."""
        if self.dispatcher.is_short and not self._shrinks:
            self.refill(cadence, model)

    def _judge_failure(self, handed: Handed, failure: TrainerFailure, cadence: Cadence, model: GlobalModel) -> None:
        """A trainer raised: retry the client, go on without it, or end the run."""
        client, policy = failure.task.client, self.config.engine.on_trainer_error
        if policy is TrainerErrorPolicy.FAIL:
            raise TrainerFailedError(failure)
        if not handed.is_late:
            self.ledger.reject(client)
        if policy is TrainerErrorPolicy.RETRY:
            self._retries[client] = self._retries.get(client, 0) + 1
            if self._retries[client] > self.config.engine.trainer_retries:
                raise TrainerFailedError(failure)
            self.dispatcher.sender.forget(client)
            has_slot = self.ledger.num_in_flight < self.dispatcher.concurrency and self.now < self.budget_ns
            if has_slot and failure.task.work is Work.TRAIN:
                self.dispatcher.dispatch(client, self.now, cadence, model)
            return  # without a slot, which C may have lost meanwhile, it is a candidate like any other
        self.roster.exclude(client)
        self._goal = min(self._goal, self._most_updates)
        self.refill(cadence, model)
