"""Taking updates in: in logical order, until K of them count.

Between updates the aggregator has other turns, each at its own logical time: an update that is ready but cannot be
delivered, a slot that is freed because its client is silent or gone, a client that becomes reachable while slots are
free. Logical time moves to whatever is first, on both clocks alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fluxctl.config.model import Config, TrainerErrorPolicy
from fluxctl.engine.agenda import Agenda, Entry, Turn
from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.collector import Collector, Handed, TrainerFailedError
from fluxctl.engine.dispatcher import Dispatcher, GlobalModel
from fluxctl.engine.ledger import ClientState, Ledger
from fluxctl.engine.messages import TrainerFailure, Update
from fluxctl.engine.payload import decode
from fluxctl.engine.pool import Contribution
from fluxctl.engine.recorder import Recorder
from fluxctl.engine.roster import Roster
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
        staleness: Which late updates count.
        recorder: Telemetry.
        world_log: Telemetry of availability.
        budget_ns: End of the engine-time budget; nobody waits beyond it.
        heed: Raises if the run was asked to stop.
    """

    config: Config
    ledger: Ledger
    agenda: Agenda
    roster: Roster
    dispatcher: Dispatcher
    collector: Collector
    staleness: StalenessPolicy
    recorder: Recorder
    world_log: WorldLog
    budget_ns: Ns
    heed: Callable[[], None] = lambda: None
    now: Ns = 0  # logical time
    is_starved: bool = False  # nobody is in flight, and nobody will be reachable within the budget
    is_out_of_time: bool = False  # the budget was used up by waiting
    _goal: int = 0
    _num_lost: int = 0  # members of the cycle that were given up
    _wake_ns: Ns | None = None  # when somebody becomes reachable while slots are free
    _retries: dict[ClientId, int] = field(default_factory=dict)

    def refill(self, cadence: Cadence, model: GlobalModel) -> int:
        """Fill free slots now, and know when to try again if there were too few clients."""
        num = self.dispatcher.fill(self.now, cadence, model)
        self._wake_ns = None
        if self.dispatcher.is_short:
            self._wake_ns = self.roster.next_reachable_ns(self.now, self.budget_ns, cadence.triple)
        return num

    def collect(self, goal: int, cadence: Cadence, model: GlobalModel) -> list[Contribution]:
        """Take updates in logical order until ``goal`` of them count.

        Returns:
            The contributions; fewer when members were lost and the cycle shrinks, when the budget is used up, or when
            nobody is left to deliver.
        """
        self._goal, contributions = goal, list[Contribution]()
        self._num_lost = 0
        self.is_starved = False
        while len(contributions) < self._goal and not self.is_starved:
            self.heed()
            if self._awaits_nothing():
                self.is_starved = not self.refill(cadence, model) and self._wake_ns is None
                continue
            until = self._next_turn_ns()
            handed = self.collector.next(self._num_wanted(len(contributions)), until)
            if handed is not None:
                contribution = self._handle(handed, cadence, model)
                if contribution is not None:
                    contributions.append(contribution)
                    if contribution.is_late and len(contributions) < self._goal:
                        self._refill_for_late(cadence, model)
            elif until is not None:
                self._take_turn(until, cadence, model)
                if self.now >= self.budget_ns:
                    self.is_out_of_time = True
                    break
        return contributions

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
        if self.ledger.num_awaited or any(self.ledger.is_open(flight) for flight in self.ledger.in_flight()):
            return False
        late = self.ledger.earliest()  # of a client that was given up
        times = (self.agenda.next_ns(), self._wake_ns, None if late is None else late.due_ns)
        return all(t is None or t > self.budget_ns for t in times)

    def _num_wanted(self, num_contributions: int) -> int:
        """Updates that must be here before there is anything to do; one, if it may lead to a dispatch."""
        may_refill = self.staleness.can_reject and self.config.aggregation.style == "async"
        return 1 if may_refill or self.dispatcher.is_short else self._goal - num_contributions

    @property
    def _shrinks(self) -> bool:
        """Whether a cycle goes on without a member that is lost, instead of replacing it."""
        return self.config.aggregation.style == "sync" and self.config.availability.on_lost == "shrink"

    def _next_turn_ns(self) -> Ns | None:
        times = [t for t in (self.agenda.next_ns(), self._wake_ns) if t is not None]
        return min(*times, self.budget_ns) if times else None

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
            self.recorder.abandoned(self.now, flight, entry.reason)
            self.ledger.abandon(flight.client, lost=is_lost)
            self.recorder.totals.abandoned += 1
            if is_lost:
                self.dispatcher.cancel(flight)
            if plan.back_ns < NEVER:
                self.agenda.add_return(entry, max(self.now, plan.back_ns))
            self._num_lost += 1
            if self._shrinks:
                self._goal = min(self._goal, self.dispatcher.concurrency - self._num_lost)

    def _advance(self, t: Ns) -> None:
        self.now = max(self.now, t)
        self.world_log.advance(self.now)

    def _handle(self, handed: Handed, cadence: Cadence, model: GlobalModel) -> Contribution | None:
        arrival = handed.arrival
        self._advance(arrival.due_ns if isinstance(arrival, Update) else arrival.task.earliest_due_ns)
        if isinstance(arrival, TrainerFailure):
            self._survive(handed, arrival, cadence, model)
            return None
        return self._judge(handed, arrival, cadence, model)

    def _judge(self, handed: Handed, update: Update, cadence: Cadence, model: GlobalModel) -> Contribution | None:
        """Record a delivered update and ask the staleness policy whether it counts."""
        task = update.task
        payload = decode(update.payload)
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
        self.recorder.delivered(update, payload, staleness, is_accepted=decision.accepted, is_late=handed.is_late)
        self.roster.stamp(task.client, Triple(task.version, task.bin, task.iteration))
        self._retries.pop(task.client, None)
        if decision.accepted:
            return Contribution(update, payload, staleness, decision.rate_staleness, handed.is_late)
        self.recorder.totals.stale_rejected += 1
        if handed.is_late:
            self._refill_for_late(cadence, model)
        else:
            self.ledger.reject(task.client)
            self.refill(cadence, model)
        return None

    def _refill_for_late(self, cadence: Cadence, model: GlobalModel) -> None:
        """A client that had been given up can be asked again: it may be the one that a free slot lacks."""
        if self.dispatcher.is_short and not self._shrinks:
            self.refill(cadence, model)

    def _survive(self, handed: Handed, failure: TrainerFailure, cadence: Cadence, model: GlobalModel) -> None:
        """A trainer raised and the run goes on: retry the client, or go on without it."""
        client, policy = failure.task.client, self.config.engine.on_trainer_error
        self.recorder.note("trainer_failed", {"client": client, "error": failure.error, "policy": policy.value})
        if not handed.is_late:
            self.ledger.reject(client)
        if policy is TrainerErrorPolicy.RETRY:
            self._retries[client] = self._retries.get(client, 0) + 1
            if self._retries[client] > self.config.engine.trainer_retries:
                raise TrainerFailedError(failure)
            self.dispatcher.forget_weights(client)
            self.dispatcher.dispatch(client, self.now, cadence, model)
            return
        self.roster.exclude(client)
        self.refill(cadence, model)
