"""Random worlds: whatever comes and goes, slots, residence, order and time keep their rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fluxctl.config.model import Config
from fluxctl.data.worlds import knowledge_params
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.types import NS_PER_S, Ns, Verdict
from fluxctl.world.availability import AVAILABLE
from fluxctl.world.delays import build_delays
from fluxctl.world.knowledge import build_knowledge

RunEngine = Callable[..., Any]
END_S = 120.0
ENDED_BY_ITSELF = {Verdict.COMPLETED, Verdict.STARVED, Verdict.NO_ROUNDS}


@dataclass(frozen=True)
class Schedule:
    """A world and a way to run in it."""

    config: dict[str, Any]
    changes: dict[int, list[tuple[float, str]]]
    exhaustion: str
    lateness_ms: list[int]


KNOWLEDGE = st.sampled_from(
    [
        {"availability__knowledge": "unaware"},
        {"availability__knowledge": "oracular"},
        {"availability__knowledge": "client_notify", "availability__notify_latency_s": 6.5},
        {"availability__knowledge": "client_notify", "availability__num_states": 2},
        {"availability__knowledge": "heartbeat", "availability__heartbeat_every_s": 8.0},
    ]
)
STALENESS = {"sync": ["exact", "round_bin", "accept"], "async": ["accept", "downweight", "exact"]}


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    num_clients = draw(st.integers(1, 6))
    concurrency = draw(st.integers(1, num_clients))
    style = draw(st.sampled_from(["sync", "async"]))
    changes = {}
    for client in range(num_clients):
        times = sorted(draw(st.lists(st.integers(1, int(END_S) - 1), max_size=5)))
        states = draw(st.lists(st.sampled_from("TE--"), min_size=len(times) + 1, max_size=len(times) + 1))
        changes[client] = list(zip([0.0, *map(float, times)], states, strict=True))
    config = {
        **draw(KNOWLEDGE),
        "availability__trace": "syn_20",
        "availability__on_unavailable": draw(st.sampled_from(["continue", "pause", "abort"])),
        "availability__evict": draw(st.booleans()),
        "availability__on_lost": draw(st.sampled_from(["substitute", "shrink"])),
        "clients__num_clients": num_clients,
        "aggregation__style": style,
        "aggregation__concurrency": concurrency,
        "aggregation__goal": draw(st.integers(1, concurrency)),
        "aggregation__staleness__name": draw(st.sampled_from(STALENESS[style])),
        "aggregation__refill": draw(st.sampled_from(["immediate", "immediate", "staggered"])),
        "selection__per": draw(st.sampled_from(["bin", "iteration"])),
        "delays__high_s": draw(st.sampled_from([1.0, 10.0, 30.0])),
        "gate__var_threshold": draw(st.sampled_from([1e-9, 1e9])),
        "engine__abandon_after_s": draw(st.sampled_from([5.0, 20.0, 90.0])),
        "engine__on_trainer_error": draw(st.sampled_from(["fail", "drop"])),
        "limits__max_bins": draw(st.integers(1, 6)),
        "limits__max_runtime_s": draw(st.sampled_from([100.0, 400.0, 1e5])),
        "seed": draw(st.integers(0, 3)),
    }
    lateness_ms = draw(st.lists(st.integers(0, 4_000), min_size=7, max_size=7))
    return Schedule(config, changes, draw(st.sampled_from(["hold", "wrap", "stop"])), lateness_ms)


BELIEF_AFTER_THE_BUDGET = Schedule(
    # At 94 s client 3 is back, which is known at 100.5 s. By then an update of another client has moved time there.
    config={
        "availability__knowledge": "client_notify",
        "availability__notify_latency_s": 6.5,
        "availability__trace": "syn_20",
        "availability__evict": False,
        "clients__num_clients": 5,
        "aggregation__style": "sync",
        "aggregation__concurrency": 5,
        "aggregation__goal": 5,
        "aggregation__staleness__name": "exact",
        "selection__per": "bin",
        "delays__high_s": 10.0,
        "gate__var_threshold": 1e-9,
        "engine__abandon_after_s": 20.0,
        "limits__max_bins": 1,
        "limits__max_runtime_s": 100.0,
    },
    changes={client: [(0.0, "T")] for client in (0, 1, 2, 4)} | {3: [(0.0, "T"), (1.0, "-"), (94.0, "T")]},
    exhaustion="hold",
    lateness_ms=[0] * 7,
)


def watch(engine: Any) -> None:
    """Check before each wait that no slot is free while somebody could be asked for it, and after it that K came.

    Fewer than K only where members are not replaced, or where nobody else could come before the budget ends.
    """
    intake = engine.aggregator._intake
    collect = intake.collect

    def counted(goal: int, *args: Any) -> Any:
        contributions = collect(goal, *args)
        assert intake.now <= intake.budget_ns
        complete = len(contributions) == goal
        assert complete or intake.is_starved or intake.is_out_of_time or intake._shrinks
        if intake.is_starved:
            cadence = engine.aggregator.cadence
            assert roster.eligible(intake.now, cadence.triple).num == 0
            assert roster.next_reachable_ns(intake.now, intake.budget_ns, cadence.triple) is None
        return contributions

    intake.collect = counted
    collector, ledger, dispatcher, roster = intake.collector, intake.ledger, intake.dispatcher, intake.roster
    hand_out = collector.next

    def checked(wanted: int, until: Ns | None = None) -> Any:
        cadence = engine.aggregator.cadence
        free = dispatcher.concurrency - ledger.num_in_flight
        is_due_now = until is not None and until <= intake.now  # its turn comes before time goes on
        if free > 0 and not is_due_now and not intake._shrinks:
            assert roster.eligible(intake.now, cadence.triple).num == 0
            soon = roster.next_reachable_ns(intake.now, intake.budget_ns, cadence.triple)
            assert soon is None or (until is not None and until <= soon)
        return hand_out(wanted, until)

    collector.next = checked


def check(run: Any, config: Config, trace: Any, changes: dict[int, Any]) -> None:
    assert run.error is None
    assert run.stop.verdict in ENDED_BY_ITSELF
    assert run.engine.clock.unfinished() == []
    assert [note for note in run.notes if note["event"] == "reorder_slack_exhausted"] == []

    # Residence: a client's dispatches, up to the time at which it is idle again, do not overlap.
    until_idle = {(client, abandoned): idle for client, abandoned, idle in run.ledger.given_up}
    busy: dict[int, list[tuple[Ns, Ns]]] = {}
    for client, start, end, how in run.ledger.intervals:
        idle = until_idle.get((client, end), 1 << 62) if how == "abandon" else end
        busy.setdefault(client, []).append((start, idle))
    assert set(busy) <= set(changes)
    for intervals in busy.values():
        assert all(a[1] <= b[0] for a, b in pairwise(intervals))

    # Cohorts: K members each, fewer only where lost ones are not replaced; times never decrease.
    if config.aggregation.style == "async" or config.availability.on_lost == "substitute":
        assert all(len(clients) == config.aggregation.goal for _, clients, _ in run.commits)
    assert all(0 < len(clients) <= config.aggregation.goal for _, clients, _ in run.commits)
    assert [t for t, *_ in run.commits] == sorted(t for t, *_ in run.commits)

    # Deliveries: when the client can be reached, the first such time after it was ready.
    for event in run.of("task_send"):
        assert trace.state(event["client"], event["send_ns"]) in AVAILABLE
    for event in run.of("withheld_delivery"):
        if event["delay_s"] > 0:
            assert event["delivery_ns"] == trace.next_available(event["client"], event["due_ns"], AVAILABLE)

    # Abandonment: exactly on time, or because the client is believed to be gone.
    belief = build_knowledge(knowledge_params(config.availability), trace)
    for event in run.of("abandon"):
        if event["reason"] == "silent":
            assert event["age_s"] == config.engine.abandon_after_s
        else:
            assert belief.believed_state(event["client"], event["now_ns"]) not in AVAILABLE
            assert event["age_s"] < config.engine.abandon_after_s

    # Selections: nobody who is believed to be away, and as many as there are.
    for event in run.of("selection"):
        assert all(belief.believed_state(client, event["t_ns"]) in AVAILABLE for client in event["chosen"])
        assert event["num_chosen"] == min(event["requested"], event["num_eligible"])
        assert event["in_flight"] + event["requested"] == config.aggregation.concurrency

    # Durations: nothing is ready before D has passed.
    delays = build_delays(config.delays, config.seed)
    for event in run.of("task_send"):
        assert event["send_ns"] - event["recv_ns"] >= delays.duration_ns(event["client"])

    # A client that has gone for good is given up at most once.
    for client in changes:
        gone_ns = max((end for _, end in pairwise_changes(trace, client)), default=0)
        if trace.next_available(client, gone_ns, AVAILABLE) is None:
            given_up = [e for e in run.of("abandon") if e["client"] == client and e["dispatch_ns"] >= gone_ns]
            assert len(given_up) <= 1


def pairwise_changes(trace: Any, client: int) -> list[tuple[Ns, Ns]]:
    """Successive changes of a client within the data."""
    times, t = [0], trace.next_change(client, 0)
    while t is not None and t <= END_S * NS_PER_S:
        times.append(t)
        t = trace.next_change(client, t)
    return list(pairwise(times))


@pytest.fixture
def check_schedule(
    run_engine: RunEngine, config_of: Callable[..., Config], trace_of: Callable[..., Any]
) -> Callable[[Schedule], None]:
    def run_and_check(schedule: Schedule) -> None:
        config = config_of(**schedule.config)
        trace = trace_of(schedule.changes, config.clients.num_clients, END_S, schedule.exhaustion)
        check(run_engine(config, trace=trace, before_run=watch), config, trace, schedule.changes)

    return run_and_check


@pytest.mark.feature("A10", "A11", "A14", "A15", "A24", "A26", "A36", "B18")
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(schedule=schedules())
@example(schedule=BELIEF_AFTER_THE_BUDGET)
def test_the_rules_hold_in_any_world(check_schedule: Callable[[Schedule], None], schedule: Schedule) -> None:
    check_schedule(schedule)


@pytest.mark.nightly
@pytest.mark.feature("A10", "A11", "A14", "A15", "A24", "A26", "A36", "B18")
@settings(max_examples=10_000, derandomize=False, suppress_health_check=list(HealthCheck))
@given(schedule=schedules())
def test_the_rules_hold_in_ten_thousand_worlds(check_schedule: Callable[[Schedule], None], schedule: Schedule) -> None:
    check_schedule(schedule)


@pytest.mark.feature("A18", "A6", "A26")
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(schedule=schedules())
@example(schedule=BELIEF_AFTER_THE_BUDGET)
def test_any_physical_order_gives_one_run_in_any_world(
    run_engine: RunEngine,
    config_of: Callable[..., Config],
    trace_of: Callable[..., Any],
    late_clock: type[VirtualClock],
    schedule: Schedule,
) -> None:
    """Each delivery is up to 4 s late; the slack is never used up."""

    def lateness(trainer: str, count: int) -> int:
        return schedule.lateness_ms[(3 * count + int(trainer.split("-")[1])) % 7] * 1_000_000

    config = config_of(**schedule.config, engine__reorder_slack_s=1e4)
    trace = trace_of(schedule.changes, config.clients.num_clients, END_S, schedule.exhaustion)
    punctual = run_engine(config, trace=trace)
    late = run_engine(config, trace=trace, clock=late_clock(lateness))  # type: ignore[call-arg]
    assert late.error is None
    assert late.commits == punctual.commits
    assert late.hash == punctual.hash
    assert (late.stop.verdict, late.stop.reason) == (punctual.stop.verdict, punctual.stop.reason)
