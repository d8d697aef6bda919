"""The ladder judged by faults: the engine is broken in one way at a time, and exactly these rungs must turn red.

Each mutation is a way in which a predecessor was wrong. It patches the real engine; nothing in the package exists for
it. The table of what turns red is ``table.json``, from which ``docs/parity.md`` is made: roots first, then what follows
from them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from fluxctl.config.model import Config, GateConfig
from fluxctl.data.worlds import build_world
from fluxctl.engine import cohort, commit, control, run, workload
from fluxctl.engine.aggregator import Aggregator, Cycle
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.collector import Handed
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.intake import Intake
from fluxctl.engine.ledger import Flight, Ledger
from fluxctl.engine.pool import Contribution, UpdatePool
from fluxctl.engine.sending import GlobalModel, Message, WeightSender
from fluxctl.errors import InvariantError
from fluxctl.learn.server_optim import ServerOptimizer
from fluxctl.parity.ladder import Ladder, climb
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Cause, Options, Status
from fluxctl.policies.control import CommitRecord
from fluxctl.policies.selectors import oort
from fluxctl.types import NS_PER_S, ClientId, CommitReason, Ns
from fluxctl.world.flight import ClientWorld, FlightPlan
from fluxctl.world.seeds import Stream, stream

TABLE: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "table.json").read_text())
Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch], None]
MUTATIONS: Final[dict[str, Mutate]] = {}


def mutation(mutate: Mutate) -> Mutate:
    """Enter a mutation under its name; its line in the table says which world it is for."""
    MUTATIONS[mutate.__name__] = mutate
    return mutate


@mutation
def skip_the_carry(patch: Patch) -> None:
    """An asynchronous commit cancels what is still in flight, as a barrier does."""
    original = Aggregator._update_beliefs

    def cancelling(self: Aggregator, members: tuple[Contribution, ...]) -> None:
        self._cancel_surplus()
        original(self, members)

    patch.setattr(Aggregator, "_update_beliefs", cancelling)


@mutation
def free_the_slot_on_return(patch: Patch) -> None:
    """A client is idle as soon as its update is here, and its slot is filled at once; the commit comes later.

    The ledger forbids it, see :func:`test_the_ledger_refuses_a_slot_that_was_freed_on_return`; so here it is broken
    as well, and forgets that a client that commits must still be there.
    """
    free_early(patch)
    freed: dict[ClientId, list[Flight]] = {}
    take, handle = Ledger.take, Intake._handle

    def take_and_keep(self: Ledger, client: ClientId) -> Flight:
        taken = take(self, client)
        freed.setdefault(client, []).append(taken)
        return taken

    def refill_at_once(self: Intake, handed: Handed, cadence: Cadence, model: GlobalModel) -> Contribution | None:
        contribution = handle(self, handed, cadence, model)
        self.refill(cadence, model)
        return contribution

    patch.setattr(Ledger, "take", take_and_keep)
    patch.setattr(Ledger, "commit", lambda _, client: freed[client].pop(0))
    patch.setattr(Intake, "_handle", refill_at_once)


def free_early(patch: Patch) -> None:
    """The slot of an update is free when the aggregator takes it in hand."""
    take, commit = Ledger.take, Ledger.commit

    def take_and_free(self: Ledger, client: ClientId) -> Flight:
        taken = take(self, client)
        commit(self, client)
        return taken

    patch.setattr(Ledger, "take", take_and_free)


@mutation
def stamp_the_triple_at_dispatch(patch: Patch) -> None:
    """A client counts as heard for (version, bin, iteration) when it is asked, not when it answers."""
    dispatch = Dispatcher.dispatch

    def stamping(
        self: Dispatcher, client: ClientId, t: Ns, cadence: Cadence, model: GlobalModel, **options: Any
    ) -> None:
        dispatch(self, client, t, cadence, model, **options)
        self.cohorts._roster.stamp(client, cadence.triple)

    patch.setattr(Dispatcher, "dispatch", stamping)


@mutation
def add_delay_and_compute(patch: Patch) -> None:
    """The modelled duration is added to the compute that it covers: due = dispatch + compute + D."""
    plan = ClientWorld.plan

    def added(self: ClientWorld, client: ClientId, t: Ns, passes: int, down: int, up: int) -> FlightPlan:
        found, compute_ns = plan(self, client, t, passes, down, up), self.delays.compute_ns(client, passes)
        return replace(found, due_ns=found.due_ns + compute_ns, delivery_ns=found.delivery_ns + compute_ns)

    patch.setattr(ClientWorld, "plan", added)


@mutation
def key_the_timeout_on_wall_time(patch: Patch) -> None:
    """Silence is measured on the wall of a slow simulation, which takes 50 wall seconds for one of engine time."""
    give_up = ClientWorld._give_up

    def by_the_wall(self: ClientWorld, client: ClientId, t: Ns, due: Ns, delivery: Ns) -> object:
        return give_up(replace(self, abandon_after_ns=self.abandon_after_ns // 50), client, t, due, delivery)

    patch.setattr(ClientWorld, "_give_up", by_the_wall)


@mutation
def shuffle_the_cohort(patch: Patch) -> None:
    """A cohort is aggregated in another order than the logical one."""
    close = Aggregator._close_cycle

    def reversed_order(self: Aggregator, cycle: Cycle) -> None:
        close(self, replace(cycle, contributions=cycle.contributions[::-1]))

    patch.setattr(Aggregator, "_close_cycle", reversed_order)


@mutation
def one_seed_for_all_clients(patch: Patch) -> None:
    """All clients draw the same directions."""

    def same(seed: int, purpose: str, *, client: int, **key: int) -> Stream:  # noqa: ARG001 - that is the fault
        return stream(seed, purpose, client=0, **key)

    patch.setattr(workload, "stream", same)


@mutation
def drop_the_redundant_payload_set(patch: Patch) -> None:
    """Nobody remembers who has which version, so every message carries the weights."""
    message = WeightSender.message

    def always_full(self: WeightSender, client: ClientId, cadence: Cadence, model: GlobalModel) -> Message:
        self._held.clear()
        return message(self, client, cadence, model)

    patch.setattr(WeightSender, "message", always_full)


@mutation
def charge_evaluation_twice(patch: Patch) -> None:
    """Engine time moves by an evaluation, which the other run counts beside it: one side counts it once more."""
    evaluate = Aggregator._evaluate

    def charging(self: Aggregator) -> float:
        seconds = evaluate(self)
        if self.cadence.num_commits:
            self._intake._advance(self._intake.now + NS_PER_S)
        return seconds

    patch.setattr(Aggregator, "_evaluate", charging)


@mutation
def draw_selections_from_another_seed(patch: Patch) -> None:
    """The selector's draws are not those that the seed names."""

    def other(seed: int, purpose: str, **key: int) -> Stream:
        return stream(seed + 1, purpose, **key)

    patch.setattr(cohort, "stream", other)


@mutation
def take_one_more_than_k(patch: Patch) -> None:
    """A cycle closes one update late."""
    collect = Intake.collect

    def more(self: Intake, goal: int, cadence: Cadence, model: GlobalModel) -> list[Contribution]:
        return collect(self, goal + 1, cadence, model)

    patch.setattr(Intake, "collect", more)


@mutation
def keep_the_pool_over_a_commit(patch: Patch) -> None:
    """Updates of a bin are still there when the next one is judged, every other time."""
    clear, calls = UpdatePool.clear, [0]

    def forgetful(self: UpdatePool) -> None:
        calls[0] += 1
        if calls[0] % 2:
            clear(self)

    patch.setattr(UpdatePool, "clear", forgetful)


@mutation
def slow_devices(patch: Patch) -> None:
    """Devices are modelled half as fast as they are."""
    work = ClientWorld._work_ns
    patch.setattr(ClientWorld, "_work_ns", lambda self, client, passes: 2 * work(self, client, passes))


@mutation
def keep_one_more_in_flight(patch: Patch) -> None:
    """There is one slot more than the concurrency."""

    def wider(*, concurrency: int, **parts: Any) -> Dispatcher:
        return Dispatcher(concurrency=concurrency + 1, **parts)

    patch.setattr(run, "Dispatcher", wider)


@mutation
def step_uphill(patch: Patch) -> None:
    """The server adds what it should subtract."""
    step = ServerOptimizer.step
    patch.setattr(ServerOptimizer, "step", lambda self, params, aggregate: step(self, params, -aggregate))


@mutation
def prefer_the_shortest_duration(patch: Patch) -> None:
    """The selector's percentiles are always the smallest value."""
    percentile = oort.percentile
    patch.setattr(oort, "percentile", lambda values, _: percentile(values, 0.0))


@mutation
def show_the_controller_other_inputs(patch: Patch) -> None:
    """The controller of K is told of ten times as many iterations."""

    def told(*, num_iterations: int, **others: Any) -> CommitRecord:
        return CommitRecord(num_iterations=10 * num_iterations, **others)

    patch.setattr(control, "CommitRecord", told)


@mutation
def read_another_trace(patch: Patch) -> None:
    """Clients come and go by another availability trace than the configured one."""

    def elsewhere(config: Config) -> ClientWorld:
        world = build_world(config)
        other = config.model_copy(update={"availability": config.availability.model_copy(update={"trace": "syn_20"})})
        return replace(world, trace=build_world(other).trace)

    patch.setattr(run, "build_world", elsewhere)


@mutation
def open_the_send_gate(patch: Patch) -> None:
    """Finished updates are delivered although their clients cannot be reached."""
    patch.setattr(ClientWorld, "delivery_ns", lambda _, __, due: due)


@mutation
def tell_beliefs_late(patch: Patch) -> None:
    """The aggregator learns ten minutes late that a client has come or gone."""

    def delayed(config: Config) -> ClientWorld:
        late = config.availability.model_copy(update={"notify_latency_s": 600.0})
        told = build_world(config.model_copy(update={"availability": late}))
        return replace(build_world(config), knowledge=told.knowledge)

    patch.setattr(run, "build_world", delayed)


@mutation
def cap_an_iteration_late(patch: Patch) -> None:
    """A bin may take one iteration more than its cap."""
    reason = commit.commit_reason

    def later(gate: GateConfig, history: list[float | None], iteration: int) -> CommitReason | None:
        assert gate.max_iterations_per_bin is not None
        looser = gate.model_copy(update={"max_iterations_per_bin": gate.max_iterations_per_bin + 1})
        return reason(looser, history, iteration)

    patch.setattr(commit, "commit_reason", later)


@mutation
def leave_updates_lying(patch: Patch) -> None:
    """Evaluations take forty seconds of engine time that nobody asked to charge; what is delivered meanwhile waits."""
    patch.setattr(run, "_evaluation_charge", lambda *_: lambda _: 40 * NS_PER_S)


# What looks at the wall, or at the cap that ends these short runs, says nothing about a mutation.
UNRELATED: Final = frozenset({"D5", "D12", "D46", "D49", "D74"})


def red(ladder: Ladder) -> dict[str, list[str]]:
    """Ids of the rungs that say no, lowest stage first: failed ones by cause, and those that only warn."""

    def ids(status: Status, cause: Cause | None) -> list[str]:
        hits = (result for result in ladder.results if result.finding.status is status and result.cause is cause)
        return [result.rung.id for result in hits if result.rung.id not in UNRELATED]

    return {
        "roots": ids(Status.FAIL, Cause.ROOT),
        "downstream": ids(Status.FAIL, Cause.DOWNSTREAM),
        "warned": ids(Status.WARN, None),
    }


def test_every_mutation_has_its_line() -> None:
    assert list(TABLE) == list(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_exactly_these_rungs_turn_red(name: str, mutated: Callable[..., tuple[Observed, Observed]]) -> None:
    line = TABLE[name]
    ladder = climb(*mutated(MUTATIONS[name], line["world"]), Options())
    expected = {key: line[key] for key in ("roots", "downstream", "warned")}
    assert red(ladder) == expected, json.dumps(red(ladder))
    assert ladder.verdict.value == "FAIL"


@pytest.mark.parametrize(
    "world", ["async", "sync", "away", "unattended", "informed", "scarce", "guided", "picky", "controlled"]
)
def test_without_a_mutation_nothing_is_red(world: str, mutated: Callable[..., tuple[Observed, Observed]]) -> None:
    ladder = climb(*mutated(lambda _: None, world), Options())
    assert red(ladder) == {"roots": [], "downstream": [], "warned": []}
    exact = {result.rung.id: result.finding for result in ladder.results}
    assert [exact[rung_id].value for rung_id in ("D61", "model_checksum")] == [1.0, 1.0]


def test_the_ledger_refuses_a_slot_that_was_freed_on_return(
    mutated: Callable[..., tuple[Observed, Observed]],
) -> None:
    """One state per client: whoever is idle has nothing to commit."""
    with pytest.raises(InvariantError, match="is idle and has no dispatch"):
        mutated(free_early, "async")


def test_the_table_names_rungs_that_exist() -> None:
    known = {rung.id for rung in all_rungs()}
    named = {rung_id for line in TABLE.values() for key in ("roots", "downstream", "warned") for rung_id in line[key]}
    assert named <= known
