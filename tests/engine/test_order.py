"""Logical order: what is committed when does not depend on when and in which order updates physically arrive."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxctl.config.model import Config
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.types import NS_PER_S, Verdict, ns_from_s
from fluxctl.world.delays import build_delays

RunEngine = Callable[..., Any]
SYNC: dict[str, Any] = {"aggregation__goal": 4, "aggregation__concurrency": 4}
OVER_COMMIT: dict[str, Any] = {"aggregation__goal": 3, "aggregation__concurrency": 6}
ASYNC: dict[str, Any] = {
    "aggregation__style": "async",
    "aggregation__goal": 3,
    "aggregation__concurrency": 6,
    "aggregation__staleness__name": "downweight",
    "aggregation__rate__name": "old",
}
KEPT: dict[str, Any] = {**SYNC, "selection__per": "bin"}
STYLES = pytest.mark.parametrize("style", [SYNC, OVER_COMMIT, KEPT, ASYNC], ids=["sync", "over", "kept", "async"])


@pytest.mark.feature("A18", "A6", "A7", "A17")
@STYLES
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lateness_ms=st.lists(st.integers(0, 30_000), min_size=40, max_size=40))
def test_any_physical_order_gives_one_run(
    run_engine: RunEngine,
    config_of: Callable[..., Config],
    late_clock: type[VirtualClock],
    style: dict[str, Any],
    lateness_ms: list[int],
) -> None:
    config = config_of(**style, limits__max_bins=4)

    def lateness(trainer: str, count: int) -> int:
        return lateness_ms[(7 * count + int(trainer.split("-")[1])) % len(lateness_ms)] * 1_000_000

    punctual, late = run_engine(config), run_engine(config, clock=late_clock(lateness))  # type: ignore[call-arg]
    assert late.error is None
    assert late.commits == punctual.commits
    assert late.hash == punctual.hash
    assert [note for note in late.notes if note["event"] == "reorder_slack_exhausted"] == []


def reversing(run: Any) -> Callable[[str, int], int]:
    """Lateness that delivers the first cycle of a run around 20 s, in the reverse of its logical order."""
    due_of = {event["client"]: event["due_ns"] for event in run.of("dispatch")}
    dues = [due_of[client] for client in run.of("selection")[0]["chosen"]]  # thread n works for the n-th

    def lateness(trainer: str, _: int) -> int:
        due = dues[int(trainer.split("-")[1])]
        return 20 * NS_PER_S - due - sorted(dues).index(due)

    return lateness


@pytest.mark.feature("A20")
def test_a_late_run_records_in_which_order_things_arrived(
    run_engine: RunEngine, config_of: Callable[..., Config], late_clock: type[VirtualClock]
) -> None:
    """The first in logical order comes last."""
    config = config_of(**SYNC, limits__max_bins=1, gate__enabled=False)
    punctual_run = run_engine(config)
    [cycle] = run_engine(config, clock=late_clock(reversing(punctual_run))).of("agg_round")  # type: ignore[call-arg]
    wall = cycle["wall"]
    assert wall["arrival_order"] == cycle["contributing_trainers"][::-1]
    assert wall["inversions"] == 6  # of 4 updates, every pair
    assert wall["worst_lateness_s"] == pytest.approx(
        20 - min(event["due_ns"] for event in punctual_run.of("dispatch")) / NS_PER_S, abs=1e-6
    )
    [punctual] = punctual_run.of("agg_round")
    assert punctual["wall"]["arrival_order"] == punctual["contributing_trainers"]
    assert (punctual["wall"]["inversions"], punctual["wall"]["worst_lateness_s"]) == (0, 0.0)


@pytest.mark.feature("A20")
def test_arrival_order_commits_what_came_first(
    run_engine: RunEngine, config_of: Callable[..., Config], late_clock: type[VirtualClock]
) -> None:
    config = config_of(**SYNC, limits__max_bins=1, gate__enabled=False)
    arrival = config_of(**SYNC, limits__max_bins=1, gate__enabled=False, engine__commit_order="arrival")
    logical = run_engine(config)
    reversed_run = run_engine(arrival, clock=late_clock(reversing(logical)))  # type: ignore[call-arg]
    assert reversed_run.commits[0][1] == logical.commits[0][1][::-1]
    assert run_engine(arrival).commits == logical.commits  # on time, both orders are one


@pytest.mark.feature("A21")
def test_ties_go_by_client(run_engine: RunEngine, config_of: Callable[..., Config]) -> None:
    run = run_engine(config_of(**SYNC, delays__model="constant", delays__high_s=5.0))
    cohorts = [clients for _, clients, _ in run.commits]
    assert all(clients == sorted(clients) for clients in cohorts)
    chosen = [event["chosen"] for event in run.of("selection")]
    assert any(clients != sorted(clients) for clients in chosen)  # so the order was not there before


@pytest.mark.feature("A21")
def test_ties_between_versions_go_by_duration(run_engine: RunEngine, config_of: Callable[..., Config]) -> None:
    """Async with delays in whole seconds: equal due times of different dispatches are common."""
    run = run_engine(config_of(**ASYNC, delays__model="lognormal", limits__max_bins=20, clients__num_clients=40))
    sends = {(event["client"], event["task"]): event for event in run.of("task_send")}
    order = [(event["due_ns"], event["due_ns"] - event["recv_ns"], client) for (client, _), event in sends.items()]
    dues = [due for due, *_ in order]
    assert len(set(dues)) < len(dues)  # there were ties
    committed = [client for _, clients, _ in run.commits for client in clients]
    expected = [client for *_, client in sorted(order)]
    assert committed == expected[: len(committed)]


@pytest.mark.feature("A3", "A5", "A6", "A7")
@STYLES
def test_commits_are_in_due_order_and_time_never_decreases(
    run_engine: RunEngine, config_of: Callable[..., Config], style: dict[str, Any]
) -> None:
    config = config_of(**style, limits__max_bins=10)
    run, delays = run_engine(config), build_delays(config.delays, config.seed)
    assert run.stop is not None
    assert run.stop.verdict is Verdict.COMPLETED
    times = [t for t, *_ in run.commits]
    assert times == sorted(times)
    for event in run.of("agg_round"):
        intervals = event["contributor_intervals"]
        dues = [
            ns_from_s(i["dispatch"]) + delays.duration_ns(client)
            for i, client in zip(intervals, event["contributing_trainers"], strict=True)
        ]
        assert dues == sorted(dues)
        assert event["t_ns"] == dues[-1] or style is ASYNC
        assert all(lag >= 0 for lag in event["visibility_lag_s"])
        assert event["barrier_wait_s"] == pytest.approx(event["visibility_lag_s"][0])
    for event in run.of("task_send"):  # due = dispatch + D, never compute + D
        assert event["due_ns"] == event["recv_ns"] + delays.duration_ns(event["client"])
        assert event["send_ns"] == event["due_ns"]
    dispatched = {(event["client"], event["dispatch_ns"]) for event in run.of("dispatch")}
    assert {(event["client"], event["dispatch_ns"]) for event in run.of("task_recv")} <= dispatched


@pytest.mark.feature("A10", "A11", "A13")
@STYLES
def test_slots_are_held_to_commit_and_nobody_is_in_flight_twice(
    run_engine: RunEngine, config_of: Callable[..., Config], style: dict[str, Any]
) -> None:
    """The audited ledger checks in flight = outstanding <= C after every transition."""
    config = config_of(**style, limits__max_bins=12)
    run = run_engine(config)
    assert run.error is None
    by_client: dict[int, list[tuple[int, int]]] = {}
    for client, start, end, _ in run.ledger.intervals:
        by_client.setdefault(client, []).append((start, end))
    assert any(len(intervals) > 1 for intervals in by_client.values())  # there were re-dispatches
    for intervals in by_client.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(intervals)))
    assert run.ledger.most_in_flight == config.aggregation.concurrency
    for event in run.of("selection"):  # C stays filled: each selection asks for what is missing, and gets it
        assert event["in_flight"] + event["num_chosen"] == config.aggregation.concurrency
    for event in run.of("residence"):
        left = event["in_flight_before"] - event["num_committed"] - event["num_cleaned"]
        assert event["in_flight_after"] == left
        assert event["num_committed"] == config.aggregation.goal
        assert all(age > 0 for age in event["ages_s"])


@pytest.mark.feature("A9")
def test_async_surplus_carries_over(run_engine: RunEngine, config_of: Callable[..., Config]) -> None:
    config = config_of(**ASYNC, limits__max_bins=12, gate__enabled=False)
    run = run_engine(config)
    num_dispatched = len(run.of("dispatch"))
    committed = [client for _, clients, _ in run.commits for client in clients]
    assert len(committed) == 12 * 3
    assert num_dispatched == len(committed) + 3  # what is in flight at the end, and nothing thrown away
    assert [how for *_, how in run.ledger.intervals] == ["commit"] * len(committed)
    assert max(max(event["staleness"]) for event in run.of("agg_round")) > 0
    assert len(run.of("trainer_round")) == len(committed)
    assert run.engine.recorder.totals.surplus == 0


@pytest.mark.feature("A9")
def test_sync_surplus_is_cancelled_and_counted(
    run_engine: RunEngine, config_of: Callable[..., Config], null_workload: type
) -> None:
    config, workload = config_of(**OVER_COMMIT, limits__max_bins=5), null_workload()
    run = run_engine(config, workload=workload, num_workers=0)
    num_cycles = len(run.commits)
    assert run.engine.recorder.totals.surplus == 3 * num_cycles
    assert run.of("agg_round")[-1]["surplus_total"] == 3 * num_cycles
    assert all(event["in_flight"] == 0 for event in run.of("agg_round"))
    assert [how for *_, how in run.ledger.intervals].count("cancel") == 3 * num_cycles
    assert len(workload.steps) == 3 * num_cycles  # without lookahead, what is cancelled is never computed


@pytest.mark.feature("A8", "A12")
@STYLES
def test_a_retried_bin_strands_nobody_and_commits_nothing_twice(
    run_engine: RunEngine, config_of: Callable[..., Config], style: dict[str, Any]
) -> None:
    config = config_of(**style, gate__var_threshold=1e-9, gate__max_iterations_per_bin=4, limits__max_bins=3)
    run = run_engine(config)
    cycles = run.of("agg_round")
    assert [event["commit_reason"] for event in cycles] == ([None] * 3 + ["cap"]) * 3
    assert [event["cycle_iteration"] for event in cycles] == [0, 1, 2, 3] * 3
    assert [event["cached_pool_size"] for event in cycles] == [goal * config.aggregation.goal for goal in range(4)] * 3
    tasks = [(event["client"], event["task"]) for event in run.of("task_send")]
    assert len(set(tasks)) == len(tasks)
    contributions = [(e["client"], e["version"], e["bin"], e["iteration"]) for e in run.of("trainer_round")]
    assert len(set(contributions)) == len(contributions)
    num_committed = sum(len(event["contributing_trainers"]) for event in cycles)
    assert num_committed == len(tasks) == 12 * config.aggregation.goal


@pytest.mark.feature("A12")
def test_a_contributor_is_not_offered_again_for_the_same_triple(
    run_engine: RunEngine, config_of: Callable[..., Config]
) -> None:
    """Only a rejected update leaves a client idle while its triple is current, so the filter is asked directly."""
    from fluxctl.engine.cadence import Triple

    seen: list[tuple[int, int, int]] = []

    def ask(engine: Any) -> None:
        roster, cadence = engine.aggregator._intake.roster, engine.aggregator.cadence
        before = roster.eligible(0, cadence.triple)
        roster.stamp(5, cadence.triple)
        after, next_iteration = roster.eligible(0, cadence.triple), roster.eligible(0, cadence.after_retry().triple)
        seen.append((before.num, after.num, next_iteration.num))
        roster.stamp(5, cadence.triple)
        assert not after.contains(5)
        assert 5 not in after.ids()
        assert after.num == len(after.ids())
        assert after.fingerprint != before.fingerprint
        roster.stamp(5, Triple(0, 0, 7))  # some other triple
        other = roster.eligible(0, cadence.triple)
        assert other.contains(5)
        assert other.fingerprint == before.fingerprint

    run_engine(config_of(), before_run=ask)
    assert seen == [(12, 11, 12)]


def test_bins_repeat_every_round(run_engine: RunEngine, config_of: Callable[..., Config]) -> None:
    run = run_engine(config_of(**SYNC, gate__enabled=False, limits__max_bins=10))
    cycles = run.of("agg_round")
    assert [event["cycle_bin"] for event in cycles] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [event["round"] for event in cycles] == [0] * 4 + [1] * 4 + [2] * 2
    assert [event["version"] for event in cycles] == list(range(1, 11))
    assert [event["commit_reason"] for event in cycles] == ["natural"] * 10


@pytest.mark.feature("A11")
def test_stale_updates_are_rejected_and_their_slots_refilled(
    run_engine: RunEngine, config_of: Callable[..., Config]
) -> None:
    """Async with the exact policy: carried-over updates are refused one by one, and the run still gets on."""
    config = config_of(**{**ASYNC, "aggregation__staleness__name": "exact"}, limits__max_bins=6)
    run = run_engine(config)
    assert run.error is None
    assert run.engine.recorder.totals.stale_rejected > 0
    hows = [how for *_, how in run.ledger.intervals]
    assert hows.count("reject") == run.engine.recorder.totals.stale_rejected
    assert all(set(event["staleness"]) == {0} for event in run.of("agg_round"))
    assert run.of("residence")[-1]["num_stale_rejected"] == hows.count("reject")


@pytest.mark.feature("A17")
@STYLES
@pytest.mark.parametrize("staleness", ["exact", "downweight"])
def test_on_a_punctual_clock_everything_is_dispatched_when_it_should_be(
    run_engine: RunEngine, config_of: Callable[..., Config], style: dict[str, Any], staleness: str
) -> None:
    """A slot that a rejection frees as well: the engine must not wait for several updates before it looks at one."""
    late: list[float] = []

    def watch(engine: Any) -> None:
        intake, tell = engine.aggregator._intake, engine.aggregator._dispatcher.on_dispatch

        def watched(record: Any) -> None:
            late.append(engine.clock.now() - intake.now)
            tell(record)

        engine.aggregator._dispatcher.on_dispatch = watched

    config = config_of(**{**style, "aggregation__staleness__name": staleness}, limits__max_bins=8)
    run = run_engine(config, before_run=watch)
    assert len(late) == len(run.of("dispatch")) > 8
    assert set(late) == {0}
    assert {event["wall"]["worst_lateness_s"] for event in run.of("agg_round")} == {0.0}


def test_policies_that_say_so_never_reject() -> None:
    """What they say decides how many updates the engine waits for at a time."""
    from fluxctl.policies.staleness import STALENESS, StalenessView

    views = [StalenessView(a, a, b, i, 3, 3, 2, 1, 7.0) for a in range(4) for b in range(3) for i in range(2)]
    for name in STALENESS.names():
        policy = STALENESS.build(name, {})
        assert policy.can_reject is not all(policy.judge(view).accepted for view in views), name
