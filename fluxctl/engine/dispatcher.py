"""Who trains next, and what they are sent.

Keeps up to C clients in flight. Selection sees a frozen view; the ledger is the only source of who is idle. A client
that has contributed to the current (version, bin, iteration) is not offered again for it; the stamp is set when its
update is taken, not when it is dispatched, or the pool of eligible clients would freeze before the first commit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.engine.cadence import Cadence, Triple
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock
from fluxctl.engine.ledger import Flight, Ledger, set_fingerprint
from fluxctl.engine.messages import Cancel, ToTrainer, Train
from fluxctl.engine.payload import Payload, Vector, encode
from fluxctl.policies.selectors.base import ClientBeliefs, Selection, SelectionView, Selector
from fluxctl.types import ClientId, Ns, PayloadKind
from fluxctl.world.delays import ClientDelays
from fluxctl.world.seeds import stream

_NUM_TENSORS: Final = {PayloadKind.KEEP_GOING: 0, PayloadKind.WEIGHTS: 1, PayloadKind.WEIGHTS_AND_GRADIENT: 2}


@dataclass(frozen=True, slots=True)
class GlobalModel:
    """What the server would send: weights, and the last aggregate when the bin is guided by it."""

    params: Vector
    guide: Vector | None

    def payload(self, cadence: Cadence) -> Payload:
        """The full message for the current version."""
        if self.guide is None:
            return Payload(PayloadKind.WEIGHTS, *cadence.triple, vectors=(self.params,))
        return Payload(PayloadKind.WEIGHTS_AND_GRADIENT, *cadence.triple, vectors=(self.params, self.guide))


@dataclass(frozen=True, slots=True)
class SelectionRecord:
    """A selection, with what it was made from."""

    view: SelectionView
    selection: Selection
    requested: int
    kept: bool
    eligible_fingerprint: int
    in_flight_before: int


@dataclass(frozen=True, slots=True)
class DispatchRecord:
    """One message to a client."""

    task: Train
    kind: PayloadKind
    num_tensors: int


@dataclass
class Dispatcher:
    """Selects clients and sends them work.

    Args:
        clock: The engine's clock.
        ledger: Client states.
        selector: Who is asked.
        delays: Modelled durations.
        inboxes: Mailboxes of the trainer threads.
        hire: Starts one more trainer thread, adds its mailbox, and returns its number; for when others are stuck.
        seed: The run's seed.
        concurrency: Most clients in flight, C.
        goal: Updates per cycle, K.
        num_clients: Size of the population, N.
        passes_per_step: Forward passes of one step, for compute models that charge them.
        keeps_cohort: Ask the same clients for all iterations of a bin.
        suppresses_weights: Send a keep-going message to a client that has the current version.
        beliefs: What the aggregator knows of each client.
        excluded: Clients that cannot train: no data, or given up.
        on_selection: Called after each selection.
        on_dispatch: Called after each dispatch.
    """

    clock: Clock
    ledger: Ledger
    selector: Selector
    delays: ClientDelays
    inboxes: list[Mailbox[ToTrainer]]
    hire: Callable[[], int]
    seed: int
    concurrency: int
    goal: int
    num_clients: int
    passes_per_step: int
    keeps_cohort: bool
    suppresses_weights: bool
    beliefs: ClientBeliefs
    excluded: set[ClientId]
    on_selection: Callable[[Ns, Cadence, SelectionRecord], None]
    on_dispatch: Callable[[DispatchRecord], None]
    num_selections: int = 0
    num_suppressed: int = 0
    registered: set[int] = field(default_factory=set)  # trainer threads that have started
    _free: list[int] = field(default_factory=list)  # heap of trainer threads without work
    _working: dict[int, int] = field(default_factory=dict)  # task id -> trainer thread
    _has_version: dict[ClientId, int] = field(default_factory=dict)
    _stamps: dict[ClientId, Triple] = field(default_factory=dict)
    _attempts: dict[ClientId, tuple[Triple, int]] = field(default_factory=dict)
    _kept: tuple[int, tuple[ClientId, ...]] = (-1, ())
    _encoded: tuple[int, bytes] | None = None  # full payload of a version
    _draws: tuple[Triple, int] | None = None

    def __post_init__(self) -> None:
        self._state = self.selector.initial_state()
        self._everyone = set_fingerprint(iter(range(self.num_clients)))

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

    def stamp(self, client: ClientId, triple: Triple) -> None:
        """``client`` has contributed to ``triple``."""
        self._stamps[client] = triple

    def exclude(self, client: ClientId) -> None:
        """Never select ``client`` again."""
        self.excluded.add(client)

    def forget_weights(self, client: ClientId) -> None:
        """``client`` may have lost what it was sent; its next message is a full one."""
        self._has_version.pop(client, None)

    def fill(self, t: Ns, cadence: Cadence, model: GlobalModel) -> int:
        """Dispatch until C clients are in flight or nobody is eligible.

        Returns:
            How many were dispatched.
        """
        wanted = self.concurrency - self.ledger.num_in_flight
        if wanted <= 0:
            return 0
        record = self._select(wanted, cadence)
        self.on_selection(t, cadence, record)
        for client in record.selection.chosen:
            self.dispatch(client, t, cadence, model)
        return len(record.selection.chosen)

    def dispatch(self, client: ClientId, t: Ns, cadence: Cadence, model: GlobalModel) -> None:
        """Send ``client`` the current bin at logical time ``t``."""
        duration_ns = self.delays.task_duration_ns(client, self.passes_per_step)
        flight = self.ledger.dispatch(client, dispatch_ns=t, due_ns=t + duration_ns, duration_ns=duration_ns)
        data, kind = self._payload(client, cadence, model)
        task = Train(
            client=client,
            task_id=flight.task_id,
            attempt=self._attempt(client, cadence.triple),
            bin=cadence.bin,
            round=cadence.round,
            iteration=cadence.iteration,
            version=cadence.version,
            dispatch_ns=t,
            earliest_due_ns=flight.due_ns,
            duration_ns=duration_ns,
            payload=data,
        )
        trainer = self._free_trainer()
        self._working[flight.task_id] = trainer
        self.on_dispatch(DispatchRecord(task, kind, _NUM_TENSORS[kind]))
        self.clock.put(self.inboxes[trainer], task)

    def _free_trainer(self) -> int:
        """A thread without work; a new one if all are busy, which takes an abandoned step that still runs."""
        if self._free:
            return heapq.heappop(self._free)
        trainer = self.hire()
        self.registered.add(trainer)
        return trainer

    def cancel(self, flight: Flight) -> None:
        """Stop the work on a dispatch that was closed in the ledger."""
        trainer = self._working.get(flight.task_id)
        if trainer is not None:
            self.clock.put(self.inboxes[trainer], Cancel(flight.task_id))
            self.release(flight.task_id)

    def eligible_fingerprint(self, cadence: Cadence) -> int:
        """Order-free fingerprint of the clients that may be selected now."""
        barred = set_fingerprint(tuple(self._barred_idle(cadence)))
        return (self._everyone - self.ledger.busy_fingerprint - barred) % (1 << 64)

    def num_eligible(self, cadence: Cadence) -> int:
        """Clients that may be selected now."""
        return self.num_clients - self.ledger.num_busy - len(self._barred_idle(cadence))

    def _barred_idle(self, cadence: Cadence) -> set[ClientId]:
        """Idle clients that may not be selected: excluded, or stamped for the current triple."""
        triple = cadence.triple
        if any(stamp != triple for stamp in self._stamps.values()):
            self._stamps = {client: stamp for client, stamp in self._stamps.items() if stamp == triple}
        return {c for c in self.excluded if self.ledger.is_idle(c)} | {
            c for c in self._stamps if self.ledger.is_idle(c)
        }

    def _select(self, wanted: int, cadence: Cadence) -> SelectionRecord:
        before, fingerprint = self.ledger.num_in_flight, self.eligible_fingerprint(cadence)
        repeats = self._kept_cohort(cadence)[:wanted]
        view = self._view(cadence, repeats)
        if len(repeats) == wanted:
            return SelectionRecord(view, Selection(repeats, self._state, {}), wanted, True, fingerprint, before)
        draws = self._draws[1] + 1 if self._draws is not None and self._draws[0] == cadence.triple else 0
        self._draws = (cadence.triple, draws)
        source = stream(self.seed, "selection", version=cadence.version, iteration=cadence.iteration, attempt=draws)
        fresh = self.selector.select(view, wanted - len(repeats), source, self._state)
        self.num_selections += 1
        self._state = fresh.state
        self.beliefs.num_selected[np.array(fresh.chosen, dtype=np.int64)] += 1
        selection = Selection((*repeats, *fresh.chosen), fresh.state, fresh.detail)
        if self.keeps_cohort:
            kept = self._kept[1] if self._kept[0] == cadence.version else ()
            self._kept = (cadence.version, (*kept, *fresh.chosen))
        return SelectionRecord(view, selection, wanted, False, fingerprint, before)

    def _kept_cohort(self, cadence: Cadence) -> tuple[ClientId, ...]:
        """Idle members of the cohort that this bin began with."""
        version, kept = self._kept
        if version != cadence.version:
            return ()
        barred = self._barred_idle(cadence)
        return tuple(client for client in kept if self.ledger.is_idle(client) and client not in barred)

    def _view(self, cadence: Cadence, besides: tuple[ClientId, ...]) -> SelectionView:
        """What the selector sees; clients in ``besides`` are already chosen."""
        barred = self._barred_idle(cadence) | set(besides)

        def is_eligible(client: ClientId) -> bool:
            return self.ledger.is_idle(client) and client not in barred

        def eligible() -> npt.NDArray[np.int64]:
            mask = np.ones(self.num_clients, dtype=bool)
            mask[np.fromiter(self.ledger.busy(), dtype=np.int64, count=self.ledger.num_busy)] = False
            mask[np.fromiter(barred, dtype=np.int64, count=len(barred))] = False
            return np.flatnonzero(mask).astype(np.int64)

        return SelectionView(
            round=self.num_selections + 1,
            num_clients=self.num_clients,
            num_eligible=self.num_clients - self.ledger.num_busy - len(barred),
            is_eligible=is_eligible,
            eligible=eligible,
            beliefs=self.beliefs,
            concurrency=self.concurrency,
            goal=self.goal,
        )

    def _payload(self, client: ClientId, cadence: Cadence, model: GlobalModel) -> tuple[bytes, PayloadKind]:
        if self.suppresses_weights and self._has_version.get(client) == cadence.version:
            self.num_suppressed += 1
            return encode(Payload(PayloadKind.KEEP_GOING, *cadence.triple)), PayloadKind.KEEP_GOING
        self._has_version[client] = cadence.version
        payload = model.payload(cadence)
        if self._encoded is None or self._encoded[0] != cadence.version:
            self._encoded = (cadence.version, encode(payload))
        return self._encoded[1], payload.kind

    def _attempt(self, client: ClientId, triple: Triple) -> int:
        last, count = self._attempts.get(client, (None, -1))
        attempt = count + 1 if last == triple else 0
        self._attempts[client] = (triple, attempt)
        return attempt
