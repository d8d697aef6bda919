"""Sending work: what the chosen clients are sent, when, and which thread acts for them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fluxctl.engine.agenda import Agenda
from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock
from fluxctl.engine.cohort import CohortSelector, SelectionRecord
from fluxctl.engine.ledger import Flight, Ledger
from fluxctl.engine.messages import Cancel, ToTrainer, Train, Work
from fluxctl.engine.sending import GlobalModel, WeightSender
from fluxctl.types import ClientId, Ns, PayloadKind
from fluxctl.world.flight import ClientWorld

_NUM_TENSORS: Final = {
    PayloadKind.KEEP_GOING: 0,
    PayloadKind.WEIGHTS: 1,
    PayloadKind.WEIGHTS_AND_GRADIENT: 2,
    PayloadKind.DELTA: 1,
}


@dataclass(frozen=True, slots=True)
class DispatchRecord:
    """One message to a client."""

    task: Train
    kind: PayloadKind
    num_tensors: int
    stagger_ns: Ns


@dataclass(frozen=True, slots=True)
class WorkModel:
    """What a kind of work costs its client, known before it runs.

    Args:
        world: When it will be done.
        passes: Forward passes of a client's task on a bin, for compute models that charge them.
        reply_bytes: Size of what comes back, for links that charge it.
    """

    world: ClientWorld
    passes: Callable[[ClientId, int], int]
    reply_bytes: int


@dataclass
class Dispatcher:
    """Fills free slots.

    Args:
        clock: The engine's clock.
        ledger: Client states.
        agenda: What is foreseen for each dispatch.
        cohorts: Who is asked.
        sender: What they are sent.
        works: What each kind of work costs.
        inboxes: Mailboxes of the trainer threads.
        hire: Starts one more trainer thread, adds its mailbox, and returns its number; for when others are stuck.
        concurrency: Most clients in flight, C.
        goal: Updates per cycle, K.
        stagger_ns: Time between the starts of one refill; 0 = all at once.
        deliver: Hands a message to its client, before a thread works on it.
        on_selection: Called after each selection.
        on_dispatch: Called after each dispatch.
    """

    clock: Clock
    ledger: Ledger
    agenda: Agenda
    cohorts: CohortSelector
    sender: WeightSender
    works: Mapping[Work, WorkModel]
    inboxes: list[Mailbox[ToTrainer]]
    hire: Callable[[], int]
    concurrency: int
    goal: int
    stagger_ns: Ns
    deliver: Callable[[Train], None]
    on_selection: Callable[[Ns, Cadence, SelectionRecord], None]
    on_dispatch: Callable[[DispatchRecord], None]
    is_short: bool = False  # the last fill found fewer clients than free slots
    registered: set[int] = field(default_factory=set)  # trainer threads that have started
    _free: list[int] = field(default_factory=list)  # heap of trainer threads without work
    _working: dict[int, int] = field(default_factory=dict)  # task id -> trainer thread
    _attempts: dict[ClientId, tuple[Triple, int]] = field(default_factory=dict)

    def register(self, trainer: int) -> None:
        """A trainer thread is ready for work; one that was hired is known already."""
        if trainer not in self.registered:
            self.registered.add(trainer)
            heapq.heappush(self._free, trainer)

    def release(self, task_id: int) -> None:
        """The thread that worked on ``task_id`` is free; unknown ids were released before."""
        trainer = self._working.pop(task_id, None)
        if trainer is not None:
            heapq.heappush(self._free, trainer)

    def fill(self, t: Ns, cadence: Cadence, model: GlobalModel) -> int:
        """Dispatch until C clients are in flight or nobody is eligible, and as many more evaluate as there is use for.

        Returns:
            How many were dispatched to train.
        """
        wanted = self.concurrency - self.ledger.num_in_flight
        self.is_short = False
        if wanted <= 0:
            return 0
        record = self.cohorts.select(
            wanted,
            t,
            cadence,
            in_flight=self.ledger.num_in_flight,
            concurrency=self.concurrency,
            goal=self.goal,
        )
        self.on_selection(t, cadence, record)
        for index, client in enumerate(record.selection.chosen):
            self.dispatch(client, t, cadence, model, stagger_ns=index * self.stagger_ns)
        num_chosen = len(record.selection.chosen)
        self.is_short = num_chosen < wanted
        self._fill_evaluations(t, cadence, model)
        return num_chosen

    def _fill_evaluations(self, t: Ns, cadence: Cadence, model: GlobalModel) -> None:
        record = self.cohorts.select_evaluations(t, cadence, in_flight=self.ledger.num_evaluating, goal=self.goal)
        if record is None or not record.selection.chosen:
            return
        self.on_selection(t, cadence, record)
        for client in record.selection.chosen:
            self.dispatch(client, t, cadence, model, work=Work.EVALUATE)

    def dispatch(
        self,
        client: ClientId,
        t: Ns,
        cadence: Cadence,
        model: GlobalModel,
        *,
        stagger_ns: Ns = 0,
        work: Work = Work.TRAIN,
    ) -> None:
        """Send ``client`` the current bin at logical time ``t``; it starts ``stagger_ns`` later."""
        message = self.sender.message(client, cadence, model)
        costs = self.works[work]
        passes = costs.passes(client, cadence.bin)
        plan = costs.world.plan(client, t + stagger_ns, passes, len(message.data), costs.reply_bytes)
        flight = self.ledger.dispatch(
            client, dispatch_ns=plan.dispatch_ns, due_ns=plan.delivery_ns, duration_ns=plan.duration_ns, work=work
        )
        self.agenda.add(flight, plan)
        task = Train(
            client=client,
            task_id=flight.task_id,
            attempt=self._attempt(client, cadence.triple) if work is Work.TRAIN else 0,
            bin=cadence.bin,
            round=cadence.round,
            iteration=cadence.iteration,
            version=cadence.version,
            dispatch_ns=plan.dispatch_ns,
            done_ns=plan.due_ns,
            earliest_due_ns=plan.delivery_ns,
            duration_ns=plan.duration_ns,
            payload=message.data,
            work=work,
        )
        trainer = self._free_trainer()
        self._working[flight.task_id] = trainer
        self.on_dispatch(DispatchRecord(task, message.kind, _NUM_TENSORS[message.kind], stagger_ns))
        self.deliver(task)
        self.clock.put(self.inboxes[trainer], task)

    def cancel(self, flight: Flight) -> None:
        """Stop the work on a dispatch that was closed in the ledger, or whose work is lost."""
        trainer = self._working.get(flight.task_id)
        if trainer is not None:
            self.clock.put(self.inboxes[trainer], Cancel(flight.task_id))
            self.release(flight.task_id)

    def _free_trainer(self) -> int:
        """A thread without work; a new one if all are busy, which takes a given-up step that still runs."""
        if self._free:
            return heapq.heappop(self._free)
        trainer = self.hire()
        self.registered.add(trainer)
        return trainer

    def _attempt(self, client: ClientId, triple: Triple) -> int:
        last, count = self._attempts.get(client, (None, -1))
        attempt = count + 1 if last == triple else 0
        self._attempts[client] = (triple, attempt)
        return attempt
