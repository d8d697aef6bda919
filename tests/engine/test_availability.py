"""Clients that come and go: deliveries, abandonment, scarcity, knowledge; by hand where one can follow it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fluxctl.config.model import Config
from fluxctl.data.worlds import build_world, knowledge_params
from fluxctl.engine.ledger import set_fingerprint
from fluxctl.policies.selectors.base import Selection, SelectionView
from fluxctl.types import NS_PER_S, PayloadKind, Verdict
from fluxctl.world.availability import AVAILABLE, SlotTrace
from fluxctl.world.delays import build_delays, straggler_offset_ns
from fluxctl.world.knowledge import build_knowledge

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
TraceOf = Callable[..., Any]

# D is 10 s for everybody, every cycle commits, and the trace named here is replaced by the test's.
AWAY: dict[str, Any] = {
    "availability__trace": "syn_20",
    "delays__model": "constant",
    "delays__high_s": 10.0,
    "gate__enabled": False,
    "limits__max_bins": 1,
}
ORACLE: dict[str, Any] = {**AWAY, "availability__knowledge": "oracular"}
ASYNC: dict[str, Any] = {"aggregation__style": "async", "aggregation__staleness__name": "accept"}
TRACKED: dict[str, Any] = {**ORACLE, "limits__max_bins": 12, "delays__model": "uniform"}
COPING: dict[str, dict[str, Any]] = {
    "unaware": {"availability__knowledge": "unaware"},
    "oracular": {"availability__knowledge": "oracular"},
    "notify": {"availability__knowledge": "client_notify", "availability__notify_latency_s": 7.0},
    "two states": {"availability__knowledge": "client_notify", "availability__num_states": 2},
    "heartbeat": {"availability__knowledge": "heartbeat", "availability__heartbeat_every_s": 12.0},
}
KNOWLEDGE = pytest.mark.parametrize("knowledge", COPING.values(), ids=COPING.keys())
STYLES = pytest.mark.parametrize("style", [{"selection__per": "bin"}, ASYNC], ids=["sync", "async"])


def sized(num: int, goal: int, concurrency: int) -> dict[str, Any]:
    return {"clients__num_clients": num, "aggregation__goal": goal, "aggregation__concurrency": concurrency}


class LowestFirst:
    """The clients with the lowest numbers, so that who is asked can be told by hand.

    Args:
        only: Clients that it ever asks; None = all.
    """

    def __init__(self, only: set[int] | None = None) -> None:
        self.only = only
        self.num_asked = 0

    def initial_state(self) -> dict[str, float]:
        return {}

    def select(self, view: SelectionView, num: int, stream: Any, state: Any) -> Selection:
        self.num_asked += 1
        wanted = [client for client in view.eligible().tolist() if self.only is None or client in self.only]
        return Selection(tuple(wanted[:num]))


def lowest_first(engine: Any) -> None:
    engine.aggregator._dispatcher.cohorts._selector = LowestFirst()


def seconds(run: Any) -> list[tuple[float, list[int]]]:
    """Time and contributors of each cycle."""
    return [(t / NS_PER_S, clients) for t, clients, _ in run.commits]


def dispatches(run: Any, client: int) -> list[float]:
    return [event["dispatch_ns"] / NS_PER_S for event in run.of("dispatch") if event["client"] == client]


def of_client(run: Any, event: str, client: int) -> list[dict[str, Any]]:
    return [e for e in run.of(event) if e["client"] == client]


class TestDelivery:
    @pytest.mark.feature("A26", "C12", "A36")
    def test_what_is_ready_while_its_client_is_away_comes_when_it_is_back(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of({1: [(0, "T"), (5, "-"), (50, "T")]}, 2)
        run = run_engine(config_of(**AWAY, **sized(2, 2, 2)), trace=trace)
        assert seconds(run) == [(50, [0, 1])]
        assert run.ledger.withheld == [(1, 10 * NS_PER_S)]
        [event] = run.of("withheld_delivery")
        assert event["t_ns"] == event["delivery_ns"] == event["commit_ns"] == 50 * NS_PER_S
        assert (event["client"], event["due_ns"], event["delay_s"]) == (1, 10 * NS_PER_S, 40.0)
        assert (event["staleness"], event["accepted"], event["after_abandon"]) == (0, True, False)
        sends = {event["client"]: event for event in run.of("task_send")}
        assert [sends[client]["send_gate_wait_s"] for client in (0, 1)] == [0.0, 40.0]
        assert sends[1]["send_ns"] == 50 * NS_PER_S
        assert run.of("abandon") == []
        [cycle] = run.of("agg_round")
        assert (cycle["barrier_wait_s"], cycle["visibility_lag_s"]) == (40.0, [40.0, 0.0])

    @pytest.mark.feature("A36")
    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("continue", [(50, [0, 1])]),
            ("pause", [(55, [0, 1])]),  # 5 s before, 5 s after
            # Lost at 5 and given up at 90, when it is back and is asked again.
            ("abort", [(100, [0, 1])]),
        ],
    )
    def test_compute_goes_on_pauses_or_is_lost(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, mode: str, expected: Any
    ) -> None:
        trace = trace_of({1: [(0, "T"), (5, "-"), (50, "T")]}, 2)
        run = run_engine(config_of(**AWAY, **sized(2, 2, 2), availability__on_unavailable=mode), trace=trace)
        assert seconds(run) == expected
        assert dispatches(run, 1) == ([0, 90] if mode == "abort" else [0])
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A18", "A26")
    def test_the_slot_is_held_while_an_update_is_withheld(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """Async, K = 1 of C = 2: the other one goes round alone, and nobody takes the place of who is withheld."""
        trace = trace_of({1: [(0, "T"), (5, "-"), (45, "T")]}, 3)
        config = config_of(**{**AWAY, **ASYNC, "limits__max_bins": 6}, **sized(3, 1, 2))
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert seconds(run) == [(10, [0]), (20, [0]), (30, [0]), (40, [0]), (45, [1]), (50, [0])]
        assert [event["staleness"] for event in run.of("agg_round")][4] == [4]
        assert [event["accepted"] for event in run.of("withheld_delivery")] == [True]
        assert dispatches(run, 2) == []


class TestAbandonment:
    """Client 0 is away from 5 to 200 s; the aggregator does not know, and waits for 90 s."""

    CHANGES: dict[int, Any] = {0: [(0, "T"), (5, "-"), (200, "T")]}

    @pytest.mark.feature("A14", "C13", "C12")
    @pytest.mark.parametrize("staleness", ["accept", "exact"])
    def test_a_silent_client_is_given_up_and_its_late_update_is_judged(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, staleness: str
    ) -> None:
        """C = K = 1 of two: from 90 s on client 1 commits every 10 s, ten times before the late update is there.

        At 200 both are due after 10 s of work, so the lower number goes first, at version 10, and client 1 follows.
        """
        config = config_of(
            **{**AWAY, **ASYNC, "aggregation__staleness__name": staleness, "limits__max_bins": 13}, **sized(2, 1, 1)
        )
        started = time.monotonic()
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), before_run=lowest_first)
        assert time.monotonic() - started < 30.0  # not the 200 s that passed
        [event] = run.of("abandon")
        assert (event["t_ns"], event["now_ns"], event["dispatch_ns"]) == (90 * NS_PER_S, 90 * NS_PER_S, 0)
        assert (event["client"], event["age_s"], event["reason"]) == (0, 90.0, "silent")
        assert dispatches(run, 1)[:11] == [90, *range(100, 200, 10)]  # its slot is refilled at once
        assert dispatches(run, 0)[:1] == [0]
        alone = [(t, [1]) for t in range(100, 200, 10)]
        [withheld] = run.of("withheld_delivery")
        assert (withheld["staleness"], withheld["after_abandon"]) == (10, True)
        if staleness == "accept":
            assert seconds(run)[:12] == [*alone, (200, [0]), (200, [1])]
            assert withheld["accepted"] is True
            assert run.engine.recorder.totals.stale_rejected == 0
            assert run.of("agg_round")[10]["staleness"] == [10]
            intervals = [event["contributor_intervals"] for event in run.of("agg_round")]
            assert intervals[10] == [{"client": 0, "dispatch": 0.0, "commit": 200.0, "late": True}]
            assert not any("late" in interval for cycle in intervals[:10] for interval in cycle)
        else:
            assert seconds(run)[:11] == [*alone, (200, [1])]
            assert withheld["accepted"] is False
            assert run.engine.recorder.totals.stale_rejected == 1
        # It can be asked again as soon as its update is here, and not before: it has the lowest number.
        assert dispatches(run, 0)[1] == 200
        assert run.engine.recorder.totals.abandoned == 1
        assert run.ledger.given_up == [(0, 90 * NS_PER_S, 200 * NS_PER_S)]

    @pytest.mark.feature("A14")
    def test_how_long_is_configurable(self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf) -> None:
        config = config_of(**AWAY, **ASYNC, **sized(2, 1, 1), engine__abandon_after_s=33.5)
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), before_run=lowest_first)
        [event] = run.of("abandon")
        assert (event["now_ns"], event["age_s"]) == (33_500_000_000, 33.5)
        assert seconds(run) == [(43.5, [1])]

    @pytest.mark.feature("A14")
    def test_who_answers_in_the_last_instant_is_not_given_up(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of({0: [(0, "T"), (5, "-"), (90, "T")]}, 2)
        run = run_engine(config_of(**AWAY, **ASYNC, **sized(2, 1, 1)), trace=trace, before_run=lowest_first)
        assert run.of("abandon") == []
        assert seconds(run) == [(90, [0])]

    @pytest.mark.feature("A14")
    def test_a_client_that_is_slower_than_anybody_waits_is_not_asked_twice(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """D is 100 s: given up at 90, delivered at 100, and only then asked again."""
        config = config_of(**{**AWAY, **ASYNC, "delays__high_s": 100.0, "limits__max_bins": 3}, **sized(1, 1, 1))
        run = run_engine(config, trace=trace_of({}, 1))
        assert dispatches(run, 0) == [0, 100, 200]
        assert seconds(run) == [(100, [0]), (200, [0]), (300, [0])]
        assert [event["now_ns"] / NS_PER_S for event in run.of("abandon")] == [90, 190, 290]

    @pytest.mark.feature("A14", "A26", "C13")
    @pytest.mark.parametrize(
        ("knowledge", "noticed"),
        [
            (COPING["oracular"], 10),  # when its update is due, everybody knows that it is away
            ({"availability__knowledge": "client_notify", "availability__notify_latency_s": 25.0}, 30),  # 5 + 25
            # The last ping came at 0; three of them may be missing, so it is gone at 45.
            ({"availability__knowledge": "heartbeat", "availability__heartbeat_every_s": 15.0}, 45),
        ],
        ids=["oracular", "notify", "heartbeat"],
    )
    def test_who_knows_of_the_boundary_does_not_wait_for_the_silence(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, knowledge: dict[str, Any], noticed: int
    ) -> None:
        config = config_of(**{**AWAY, **ASYNC, **knowledge, "limits__max_bins": 30}, **sized(2, 1, 1))
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), before_run=lowest_first)
        [event] = run.of("abandon")
        assert (event["client"], event["reason"], event["age_s"]) == (0, "boundary", float(noticed))
        assert event["now_ns"] == noticed * NS_PER_S
        assert dispatches(run, 1)[0] == noticed
        assert dispatches(run, 0)[1] >= 200
        [late] = run.of("withheld_delivery")
        assert (late["client"], late["delivery_ns"], late["after_abandon"]) == (0, 200 * NS_PER_S, True)

    @pytest.mark.feature("A26")
    def test_without_eviction_only_silence_counts(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        config = config_of(**ORACLE, **ASYNC, **sized(2, 1, 1), availability__evict=False)
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), before_run=lowest_first)
        [event] = run.of("abandon")
        assert (event["reason"], event["age_s"]) == ("silent", 90.0)

    @pytest.mark.feature("A14", "A10")
    @pytest.mark.parametrize(("staleness", "expected"), [("accept", [0, 1]), ("exact", [1, 2])])
    def test_a_late_client_fills_a_slot_that_nobody_else_could(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, staleness: str, expected: list[int]
    ) -> None:
        """Async, K = 2, C = N = 3. From 90 s on a slot is free; client 0 is back at 115, between two commits."""
        config = config_of(
            **{**AWAY, **ASYNC, "aggregation__staleness__name": staleness, "limits__max_bins": 12}, **sized(3, 2, 3)
        )
        trace = trace_of({0: [(0, "T"), (5, "-"), (115, "T")]}, 3)
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert seconds(run)[:11] == [(10 * k, [1, 2]) for k in range(1, 12)]
        assert seconds(run)[11] == (120, expected)
        assert dispatches(run, 0) == [0, 115]  # it works on the version that is open

    @pytest.mark.feature("A12", "A14")
    def test_a_late_contributor_is_not_asked_again_for_what_it_has_contributed_to(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2, both given up at 90. Client 0 is back at 95 and counts; the cycle still lacks client 1."""
        trace = trace_of({0: [(0, "T"), (5, "-"), (95, "T")], 1: [(0, "T"), (5, "-"), (130, "T")]}, 2)
        run = run_engine(config_of(**{**AWAY, **ASYNC, "limits__max_bins": 2}, **sized(2, 2, 2)), trace=trace)
        assert seconds(run) == [(130, [0, 1]), (140, [0, 1])]
        assert dispatches(run, 0) == [0, 130]


class TestLost:
    """Client 0 leaves at 5 s and never comes back."""

    @pytest.mark.feature("A15", "A24")
    @pytest.mark.parametrize("mode", ["continue", "pause", "abort"])
    def test_it_costs_one_timeout_in_all(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, mode: str
    ) -> None:
        """Sync, K = C = 2 of three: one cycle of 90 + 10 s, in which a substitute comes in, and seven of 10 s."""
        config = config_of(**{**AWAY, "limits__max_bins": 8}, **sized(3, 2, 2), availability__on_unavailable=mode)
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 3), before_run=lowest_first)
        assert run.stop.verdict is Verdict.COMPLETED
        assert seconds(run) == [(100 + 10 * k, [1, 2]) for k in range(8)]
        assert [(e["client"], e["age_s"]) for e in run.of("abandon")] == [(0, 90.0)]
        assert dispatches(run, 0) == [0]
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A15")
    def test_many_of_them_cost_one_timeout_each_and_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """Async, C = 4 of 8, four are dead: all of their timeouts run at the same time."""
        trace = trace_of({client: [(0, "T"), (1, "-")] for client in range(4)}, 8)
        config = config_of(**{**AWAY, **ASYNC, "limits__max_bins": 10}, **sized(8, 2, 4))
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert {event["now_ns"] for event in run.of("abandon")} == {90 * NS_PER_S}
        assert len(run.of("abandon")) == 4
        # 90 s, and then 4 clients of 10 s each: two commits of two every 10 s
        assert [t for t, _ in seconds(run)] == [100 + 10 * (k // 2) for k in range(10)]

    @pytest.mark.feature("A15", "A36")
    def test_a_client_whose_work_was_lost_is_asked_again_when_it_is_back(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2, so the cycle waits for it: given up at 90, back at 300."""
        trace = trace_of({0: [(0, "T"), (5, "-"), (300, "T")]}, 2)
        config = config_of(**{**AWAY, "limits__max_bins": 2}, **sized(2, 2, 2), availability__on_unavailable="abort")
        run = run_engine(config, trace=trace)
        assert seconds(run) == [(310, [1, 0]), (320, [0, 1])]
        assert dispatches(run, 0) == [0, 300, 310]
        assert run.ledger.given_up == [(0, 90 * NS_PER_S, 300 * NS_PER_S)]

    @pytest.mark.feature("A15", "A31")
    @pytest.mark.parametrize("mode", [{}, {"mode": "real", "engine__wall_factor": 200.0}], ids=["sim", "real"])
    def test_that_its_step_fails_is_not_known_either(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        null_workload: Any,
        mode: dict[str, Any],
    ) -> None:
        def fail(task: Any) -> None:
            assert task.client != 0

        config = config_of(**{**AWAY, "limits__max_bins": 3}, **sized(3, 2, 2), **mode)
        trace = trace_of({0: [(0, "T"), (5, "-")]}, 3)
        run = run_engine(config, trace=trace, before_run=lowest_first, workload=null_workload(before=fail))
        assert run.error is None
        assert seconds(run) == [(100 + 10 * k, [1, 2]) for k in range(3)]

    @pytest.mark.feature("A15", "A24")
    def test_who_cannot_be_replaced_ends_the_run(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2: no cycle closes below K. One that may shrink does, and so do all after it."""
        away = {**AWAY, "limits__max_bins": 3, **sized(2, 2, 2)}
        trace = trace_of({0: [(0, "T"), (15, "-")]}, 2)
        run = run_engine(config_of(**away), trace=trace)
        assert run.stop.verdict is Verdict.STARVED
        assert seconds(run) == [(10, [0, 1])]
        shrinking = run_engine(config_of(**away, availability__on_lost="shrink"), trace=trace)
        assert shrinking.stop.verdict is Verdict.COMPLETED
        assert seconds(shrinking) == [(10, [0, 1]), (100, [1]), (110, [1])]

    @pytest.mark.feature("A24", "A15")
    def test_shrink_closes_the_cycle_without_it(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        config = config_of(**{**AWAY, "limits__max_bins": 3}, **sized(4, 3, 3), availability__on_lost="shrink")
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 4), before_run=lowest_first)
        assert seconds(run) == [(90, [1, 2]), (100, [1, 2, 3]), (110, [1, 2, 3])]
        assert [event["goal_count"] for event in run.of("agg_round")] == [2, 3, 3]
        assert dispatches(run, 3)[0] == 90  # not before the next cycle

    @pytest.mark.feature("A24")
    @pytest.mark.parametrize(("num_lost", "expected"), [(2, (10, [2, 3])), (3, (90, [3])), (4, (100, [4, 5]))])
    def test_shrink_counts_what_can_still_come(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, num_lost: int, expected: Any
    ) -> None:
        """K = 2 of C = 4: with two lost, two are left and nobody waits; with four lost there is no cycle to close."""
        trace = trace_of({client: [(0, "T"), (5, "-")] for client in range(num_lost)}, 8)
        config = config_of(**AWAY, **sized(8, 2, 4), availability__on_lost="shrink")
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert seconds(run) == [expected]

    @pytest.mark.feature("A24")
    def test_shrink_leaves_the_goal_while_enough_are_left(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """K = 2 of C = 3, started 4 s apart. Client 0 is evicted at 10, when it is due; the others come later."""
        config = config_of(
            **ORACLE,
            **sized(3, 2, 3),
            availability__on_lost="shrink",
            aggregation__refill="staggered",
            aggregation__stagger_s=4.0,
        )
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 3), before_run=lowest_first)
        assert [event["now_ns"] for event in run.of("abandon")] == [10 * NS_PER_S]
        assert seconds(run) == [(18, [1, 2])]


class TestScarcity:
    @pytest.mark.feature("A24")
    def test_a_sync_cycle_waits_for_the_clients_that_it_lacks(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of({2: [(0, "-"), (70, "T")]}, 3)
        run = run_engine(config_of(**ORACLE, **sized(3, 3, 3)), trace=trace)
        assert seconds(run) == [(80, [0, 1, 2])]
        assert dispatches(run, 2) == [70]
        assert [event["num_chosen"] for event in run.of("selection")] == [2, 1]
        assert [event["in_flight"] for event in run.of("selection")] == [0, 2]

    @pytest.mark.feature("A24", "A25")
    def test_with_nobody_there_the_clock_jumps_to_the_next(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """Ten days of nothing: a jump, told once."""
        later = 864_000
        trace = trace_of({client: [(0, "-"), (later, "T")] for client in range(3)}, 3)
        started = time.monotonic()
        run = run_engine(config_of(**ORACLE, **sized(3, 3, 3)), trace=trace)
        assert time.monotonic() - started < 30.0
        assert seconds(run) == [(later + 10, [0, 1, 2])]
        [note] = [note for note in run.notes if note["event"] == "waited_for_clients"]
        assert (note["from_ns"], note["to_ns"]) == (0, later * NS_PER_S)
        assert run.engine.clock.num_wakeups < 50

    @pytest.mark.feature("A24")
    @STYLES
    def test_starved_names_the_next_availability(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, style: dict[str, Any]
    ) -> None:
        """There for three commits of 10 s, gone at 35, and the budget ends at 500."""
        trace = trace_of({0: [(0, "T"), (35, "-"), (2000, "T")], 1: [(0, "T"), (35, "-"), (1000.5, "T")]}, 2)
        config = config_of(
            **{**ORACLE, **style, "limits__max_bins": 9, "limits__max_runtime_s": 500.0}, **sized(2, 2, 2)
        )
        run = run_engine(config, trace=trace)
        assert run.stop.verdict is Verdict.STARVED
        assert "1000.5 s" in run.stop.reason
        assert "500 engine seconds" in run.stop.reason
        assert [t for t, _ in seconds(run)] == [10, 20, 30]
        assert run.engine.aggregator.logical_now < 500 * NS_PER_S  # it does not wait for the end

    @pytest.mark.feature("A24")
    @STYLES
    def test_starved_says_when_nobody_will_come(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, style: dict[str, Any]
    ) -> None:
        trace = trace_of({client: [(0, "T"), (15, "-")] for client in range(3)}, 3)
        config = config_of(**{**ORACLE, **style, "limits__max_bins": 9}, **sized(3, 3, 3))
        run = run_engine(config, trace=trace)
        assert run.stop.verdict is Verdict.STARVED
        assert "none will come back" in run.stop.reason
        assert [t for t, _ in seconds(run)] == [10]

    @pytest.mark.feature("A24", "A14")
    @pytest.mark.parametrize("mode", ["continue", "abort"])
    def test_nobody_waits_beyond_the_budget_for_those_who_were_given_up(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, mode: str
    ) -> None:
        """Unaware: at 90 both are given up, and what comes of them comes at 1000, after the budget."""
        trace = trace_of({client: [(0, "T"), (5, "-"), (1000 + client, "T")] for client in range(2)}, 2)
        config = config_of(
            **{**AWAY, **ASYNC, "limits__max_runtime_s": 500.0},
            **sized(2, 2, 2),
            availability__on_unavailable=mode,
        )
        run = run_engine(config, trace=trace)
        assert run.stop.verdict is Verdict.STARVED
        assert "1000 s" in run.stop.reason
        assert run.engine.aggregator.logical_now == 90 * NS_PER_S

    @pytest.mark.feature("A23", "A24")
    @pytest.mark.parametrize("budget_s", [300.0, 1.1 * 3600, 1 / 3])
    def test_a_budget_that_ends_during_a_wait_ends_the_run(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, budget_s: float
    ) -> None:
        """Whatever its last digits are: 1.1 h is a bit more than 3960 s."""
        config = config_of(
            **{**ORACLE, "limits__max_bins": None, "limits__max_runtime_s": budget_s, "delays__high_s": 2e4},
            **sized(2, 2, 2),
            engine__abandon_after_s=1e4,
        )
        run = run_engine(config, trace=trace_of({}, 2))
        assert run.stop.verdict is Verdict.NO_ROUNDS
        assert run.engine.aggregator.logical_now == pytest.approx(budget_s * NS_PER_S, abs=1)

    def test_a_selector_that_asks_fewer_than_it_could_is_not_asked_again_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """Two of three slots stay free although clients are there: asked at each turn, not at each nanosecond."""
        selector = LowestFirst(only={0})
        config = config_of(**{**ORACLE, **ASYNC, "limits__max_bins": 5}, **sized(4, 1, 3))
        run = run_engine(
            config,
            trace=trace_of({3: [(0, "-"), (25, "T")]}, 4),
            before_run=lambda engine: setattr(engine.aggregator._dispatcher.cohorts, "_selector", selector),
        )
        assert [t for t, _ in seconds(run)] == [10, 20, 30, 40, 50]
        assert selector.num_asked < 15

    @pytest.mark.feature("A24")
    def test_a_cohort_that_is_kept_is_completed_by_others(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """Per bin, two iterations. Client 0 is away for the second one: client 2 comes in for it, client 1 stays."""
        trace = trace_of({0: [(0, "T"), (10, "-"), (500, "T")]}, 3)
        config = config_of(
            **{**ORACLE, "gate__enabled": True, "gate__var_threshold": 1e-9}, **sized(3, 2, 2), selection__per="bin"
        )
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert [event["chosen"] for event in run.of("selection")][:1] == [[0, 1]]
        # Ready at 10, in the instant in which client 0 goes: its update is evicted, and client 2 is its substitute.
        assert [event["chosen"] for event in run.of("selection")] == [[0, 1], [2], [1, 2]]
        assert [event["kept"] for event in run.of("selection")] == [False, False, True]
        assert seconds(run) == [(20, [1, 2]), (30, [1, 2])]


class TestRefill:
    @pytest.mark.feature("A19", "C11")
    def test_one_after_another_or_all_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        base = {**AWAY, **ASYNC, "limits__max_bins": 2, **sized(6, 3, 3)}
        at_once = run_engine(config_of(**base), trace=trace_of({}, 6), before_run=lowest_first)
        staggered = run_engine(
            config_of(**base, aggregation__refill="staggered", aggregation__stagger_s=4.0),
            trace=trace_of({}, 6),
            before_run=lowest_first,
        )
        assert [(e["dispatch_ns"], e["stagger_s"]) for e in at_once.of("dispatch")[:3]] == [(0, 0.0)] * 3
        assert [(e["dispatch_ns"] / NS_PER_S, e["stagger_s"]) for e in staggered.of("dispatch")[:3]] == [
            (0, 0.0),
            (4, 4.0),
            (8, 8.0),
        ]
        assert [t for t, _ in seconds(at_once)] == [10, 20]
        assert [t for t, _ in seconds(staggered)] == [18, 36]
        assert [event["t_ns"] for event in staggered.of("task_recv")[:3]] == [0, 4 * NS_PER_S, 8 * NS_PER_S]

    @pytest.mark.feature("A19")
    @pytest.mark.parametrize("style", [{}, {"aggregation__goal": 2}, ASYNC, {**ASYNC, "aggregation__goal": 1}])
    @pytest.mark.parametrize("stagger_s", [0.5, 7.0])
    def test_a_start_that_lies_ahead_confuses_nothing(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any], stagger_s: float
    ) -> None:
        """With D of 1 to 10 s, later refills start before earlier ones, and the stream stays in order."""
        config = config_of(
            **{**style, "aggregation__concurrency": 5},
            aggregation__refill="staggered",
            aggregation__stagger_s=stagger_s,
            limits__max_bins=15,
        )
        run = run_engine(config)
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        times = [event["t_ns"] for event in run.events[1:]]
        assert times == sorted(times)
        received = {(event["client"], event["dispatch_ns"]) for event in run.of("task_recv")}
        assert received <= {(event["client"], event["dispatch_ns"]) for event in run.of("dispatch")}


class TestKnowledge:
    @pytest.mark.feature("B18", "A28")
    @KNOWLEDGE
    @STYLES
    def test_who_is_offered_is_who_is_believed_to_be_there(
        self, run_engine: RunEngine, config_of: ConfigOf, knowledge: dict[str, Any], style: dict[str, Any]
    ) -> None:
        """Against the belief in each client at the time of each selection; who is busy is told by the stream."""
        config = config_of(**{**TRACKED, **style, **knowledge}, **sized(30, 4, 6))
        trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
        run = run_engine(config, trace=trace)
        assert run.error is None
        belief = build_knowledge(knowledge_params(config.availability), trace)
        lengths = []
        for event in run.of("selection"):
            states = [belief.believed_state(client, event["t_ns"]) for client in range(30)]
            there = {client for client in range(30) if states[client] in AVAILABLE}
            assert set(event["chosen"]) <= there
            assert event["num_chosen"] == min(event["requested"], event["num_eligible"])
            assert event["num_eligible"] <= len(there)
            counts = {state.value: states.count(state) for state in states}
            assert event["avail_composition"] == counts
            assert event["decision_fingerprint"] == f"{set_fingerprint(tuple(event['chosen'])):016x}"
            lengths.append(len(there))
        assert len(lengths) >= 12
        assert (min(lengths) < 30) == (config.availability.knowledge != "unaware")

    @pytest.mark.feature("B18")
    def test_unaware_asks_those_who_are_away_and_an_oracle_never(
        self, run_engine: RunEngine, config_of: ConfigOf
    ) -> None:
        asked_in_vain = {}
        for name, knowledge in COPING.items():
            config = config_of(**{**TRACKED, **ASYNC, **knowledge}, **sized(30, 4, 6))
            trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
            run = run_engine(config, trace=trace)
            asked_in_vain[name] = sum(
                trace.state(event["client"], event["dispatch_ns"]) not in AVAILABLE for event in run.of("dispatch")
            )
        assert asked_in_vain["oracular"] == asked_in_vain["two states"] == 0  # reported without latency
        assert min(asked_in_vain[name] for name in ("unaware", "notify", "heartbeat")) > 0
        assert asked_in_vain["unaware"] == max(asked_in_vain.values())

    @pytest.mark.feature("B18")
    @pytest.mark.parametrize(("num_states", "expected"), [(3, [0, 1]), (2, [1, 2])])
    def test_two_states_take_a_client_that_can_only_evaluate_for_gone(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, num_states: int, expected: list[int]
    ) -> None:
        config = config_of(
            **AWAY,
            **sized(3, 2, 2),
            availability__knowledge="client_notify",
            availability__num_states=num_states,
        )
        run = run_engine(config, trace=trace_of({0: [(0, "E")]}, 3), before_run=lowest_first)
        assert run.of("selection")[0]["chosen"] == expected
        composition = run.of("selection")[0]["avail_composition"]
        assert composition == ({"AVL_TRAIN": 2, "AVL_EVAL": 1} if num_states == 3 else {"AVL_TRAIN": 2, "UN_AVL": 1})

    @pytest.mark.feature("B18")
    @pytest.mark.parametrize(("estimator", "expected"), [("central_difference", [0, 1]), ("backprop", [1, 2])])
    def test_back_propagation_needs_a_client_that_can_train(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, estimator: str, expected: list[int]
    ) -> None:
        config = config_of(**ORACLE, **sized(3, 2, 2), step__estimator=estimator)
        run = run_engine(config, trace=trace_of({0: [(0, "E")]}, 3), before_run=lowest_first)
        assert run.of("selection")[0]["chosen"] == expected

    @pytest.mark.feature("A10")
    @KNOWLEDGE
    def test_slots_stay_filled_while_anybody_is_there(
        self, run_engine: RunEngine, config_of: ConfigOf, knowledge: dict[str, Any]
    ) -> None:
        """200 clients, half of them there: each selection gets what it asks for, so that C are always in flight."""
        config = config_of(**{**TRACKED, **ASYNC, **knowledge, "limits__max_bins": 20}, **sized(200, 5, 10))
        run = run_engine(config, trace=SlotTrace(5, 20 * NS_PER_S, 0.5))
        assert run.ledger.most_in_flight == 10
        assert {event["in_flight"] + event["num_chosen"] for event in run.of("selection")} == {10}
        waits = [event["in_flight"] for event in run.of("agg_round")]
        assert waits
        assert all(in_flight >= 10 - 5 for in_flight in waits)


class TestCharges:
    @pytest.mark.feature("A22")
    @STYLES
    def test_a_straggler_is_late_by_its_own_constant(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        config = config_of(**style, delays__straggler_spread_s=8.0)
        run, delays = run_engine(config), build_delays(config.delays, config.seed)
        assert run.of("dispatch")
        for event in run.of("dispatch"):
            offset = straggler_offset_ns(event["client"], 8.0)
            assert event["due_ns"] - event["dispatch_ns"] == delays.duration_ns(event["client"]) + offset
        assert run.commits != run_engine(config_of(**style)).commits

    @pytest.mark.feature("A22", "B1")
    @STYLES
    def test_messages_take_as_long_as_their_bytes(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        """Keep-going messages are shorter than weights, so a retried iteration is quicker."""
        config = config_of(
            **style,
            links__model="constant",
            links__down_bytes_per_s=20.0,
            links__up_bytes_per_s=50.0,
            gate__var_threshold=1e-9,
        )
        run, delays = run_engine(config), build_delays(config.delays, config.seed)
        kinds = set()
        downs = [event for event in run.of("comm") if event["direction"] == "down"]
        [size_up] = {event["bytes"] for event in run.of("comm") if event["direction"] == "up"}
        for event, comm in zip(run.of("dispatch"), downs, strict=True):
            assert (event["client"], event["t_ns"]) == (comm["peer"], comm["t_ns"])
            compute = round(delays.duration_ns(event["client"]) * 0.7)
            transfer = (comm["bytes"] * 50_000_000) + size_up * 20_000_000  # nanoseconds a byte
            assert event["due_ns"] - event["dispatch_ns"] == compute + transfer
            kinds.add(comm["payload"])
        assert PayloadKind.WEIGHTS in kinds
        if style is not ASYNC:
            assert kinds == {PayloadKind.WEIGHTS, PayloadKind.KEEP_GOING}

    @pytest.mark.feature("A22", "G5")
    @STYLES
    @pytest.mark.parametrize(
        "flags",
        [
            *[pytest.param(knowledge, id=name) for name, knowledge in COPING.items()],
            {"availability__on_unavailable": "pause"},
            {"availability__on_unavailable": "abort"},
            {"availability__evict": False},
            {"availability__on_lost": "shrink"},
            {"aggregation__stagger_s": 9.0},
            {"delays__straggler_spread_s": 0.0},
            {"delays__pareto_shape": 9.0, "delays__zipf_exponent": 9.0},
            {"links__down_bytes_per_s": 1.0, "links__up_bytes_per_s": 1.0},
            {"server__momentum": 0.1, "server__beta1": 0.1, "server__eps": 1.0},
            {"server__optimizer": "sgd", "server__schedule": "constant"},
        ],
        ids=lambda flags: "-".join(key.split("__")[1] for key in flags),
    )
    def test_what_is_off_leaves_no_trace(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any], flags: dict[str, Any]
    ) -> None:
        assert run_engine(config_of(**{**style, **flags})).hash == run_engine(config_of(**style)).hash

    @pytest.mark.feature("A22", "G5", "A34")
    @KNOWLEDGE
    @STYLES
    def test_a_trace_in_which_everybody_is_there_changes_nothing(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        style: dict[str, Any],
        knowledge: dict[str, Any],
    ) -> None:
        """Not even the fingerprints of who was offered, which are kept up in another way."""
        always = run_engine(config_of(**style))
        traced = run_engine(config_of(**{**style, **knowledge}, availability__trace="syn_20"), trace=trace_of({}, 12))
        assert traced.hash == always.hash


class TestEvents:
    @pytest.mark.feature("C8", "C14")
    def test_who_comes_and_goes_is_told_when_it_happens_and_when_it_is_known(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of(
            {
                1: [(0, "T"), (15, "E"), (25, "-"), (9000, "T")],
                2: [(0, "-"), (12, "T")],
                3: [(0, "T"), (20, "-"), (22, "T")],
            },
            4,
        )
        config = config_of(
            **{**AWAY, "limits__max_bins": 4},
            **sized(4, 1, 1),
            availability__knowledge="client_notify",
            availability__notify_latency_s=4.0,
        )
        run = run_engine(config, trace=trace, before_run=lowest_first)
        assert run.engine.aggregator.logical_now == 40 * NS_PER_S
        changes = [(e["t_ns"] / NS_PER_S, e["client"], e["old"], e["new"]) for e in run.of("avail_change")]
        assert changes == [
            (12, 2, "UN_AVL", "AVL_TRAIN"),
            (15, 1, "AVL_TRAIN", "AVL_EVAL"),
            (20, 3, "AVL_TRAIN", "UN_AVL"),
            (22, 3, "UN_AVL", "AVL_TRAIN"),
            (25, 1, "AVL_EVAL", "UN_AVL"),
        ]
        beliefs = [(e["t_ns"] / NS_PER_S, e["client"], e["state"], e["source"]) for e in run.of("agg_belief_change")]
        assert beliefs == [
            (16, 2, "AVL_TRAIN", "client_notify"),
            (19, 1, "AVL_EVAL", "client_notify"),
            (24, 3, "UN_AVL", "client_notify"),  # what is reported has passed already
            (26, 3, "AVL_TRAIN", "client_notify"),
            (29, 1, "UN_AVL", "client_notify"),
        ]
        for event in (*run.of("avail_change"), *run.of("agg_belief_change")):
            assert event.get("engine_s", event.get("observed_s")) == event["t_ns"] / NS_PER_S

    @pytest.mark.feature("C8", "C14")
    def test_the_unaware_learn_nothing_and_the_always_available_change_nothing(
        self, run_engine: RunEngine, config_of: ConfigOf
    ) -> None:
        trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
        unaware = run_engine(config_of(**{**TRACKED, **COPING["unaware"]}, **sized(30, 4, 6)), trace=trace)
        assert unaware.of("avail_change")
        assert unaware.of("agg_belief_change") == []
        assert run_engine(config_of()).of("avail_change") == []
        for client in range(30):  # each change starts from where the last one ended
            events = of_client(unaware, "avail_change", client)
            assert all(a["new"] == b["old"] for a, b in pairwise(events))
            assert all(event["old"] != event["new"] for event in events)

    @pytest.mark.feature("C10")
    @pytest.mark.parametrize("selector", ["oort", "async_oort", "random"])
    def test_what_was_believed_of_a_clients_utility_and_what_it_was(
        self, run_engine: RunEngine, config_of: ConfigOf, selector: str
    ) -> None:
        """The utility of a client of the null workload is 1 + its number; unknown until its first update."""
        style = ASYNC if selector == "async_oort" else {}
        run = run_engine(config_of(**style, selection__policy__name=selector, limits__max_bins=12))
        events = run.of("utility_belief")
        if selector == "random":
            assert events == []
            return
        committed = [client for _, clients, _ in run.commits for client in clients]
        assert sorted(event["client"] for event in events) == sorted(committed)
        seen = set[int]()
        for event in events:
            assert event["actual"] == 1.0 + event["client"]
            assert event["believed"] == (event["actual"] if event["client"] in seen else None)
            assert event["staleness"] >= (0 if event["client"] in seen else 1)
            seen.add(event["client"])
        assert len(seen) < len(events)


class TestBothClocks:
    """Short traces on the wall, a hundred times faster: the same events, whatever the jitter."""

    @pytest.mark.feature("A1", "A33", "A14", "A26", "A18")
    @pytest.mark.wall
    @pytest.mark.parametrize("knowledge", [COPING["unaware"], COPING["oracular"]], ids=["unaware", "oracular"])
    @STYLES
    def test_equal_hashes(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any], knowledge: dict[str, Any]
    ) -> None:
        base = {
            **TRACKED,
            **style,
            **knowledge,
            "limits__max_bins": 8,
            "engine__abandon_after_s": 15.0,
            "engine__reorder_slack_s": 1e4,  # a busy machine may be late
        }
        trace = SlotTrace(3, 12 * NS_PER_S, 0.5)
        runs = [
            run_engine(config_of(**base, **sized(12, 3, 5), **mode), trace=trace)
            for mode in ({"mode": "real", "engine__wall_factor": 150.0}, {})
        ]
        assert [run.error for run in runs] == [None, None]
        assert runs[0].commits == runs[1].commits
        assert runs[0].hash == runs[1].hash
        assert runs[0].of("withheld_delivery") or runs[0].of("abandon")
        assert all(event["age_s"] <= 15.0 for event in runs[0].of("abandon"))

    @pytest.mark.feature("A32")
    @pytest.mark.parametrize("mode", ["continue", "abort"])
    @STYLES
    def test_results_do_not_depend_on_lookahead(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any], mode: str
    ) -> None:
        config = config_of(
            **{**TRACKED, **style, **COPING["unaware"]},
            **sized(12, 3, 5),
            availability__on_unavailable=mode,
            engine__abandon_after_s=30.0,
        )
        trace = SlotTrace(3, 20 * NS_PER_S, 0.5)
        runs = [run_engine(config, workload="learner", num_workers=workers, trace=trace) for workers in (0, 1, 3)]
        assert {run.error for run in runs} == {None}
        assert len({run.hash for run in runs}) == 1
        assert runs[0].of("abandon")


class TestShippedTraces:
    @pytest.mark.feature("A26", "A10")
    @pytest.mark.parametrize("name", ["syn_20", "syn_50", "mobiperf_2st", "mobiperf_3st_50"])
    @STYLES
    def test_a_shipped_trace_drives_a_run(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any], name: str
    ) -> None:
        """Through its file, with half of D in the minutes, so that states change within a task."""
        config = config_of(
            **{**ORACLE, **style, "delays__high_s": 400.0, "availability__trace": name, "limits__max_bins": 10},
            **sized(60, 5, 8),
            engine__abandon_after_s=1000.0,
        )
        run = run_engine(config)
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        world = build_world(config)
        states = [world.trace.state(e["client"], e["dispatch_ns"]) in AVAILABLE for e in run.of("dispatch")]
        assert all(states)
        sent = [world.trace.state(e["client"], e["send_ns"]) in AVAILABLE for e in run.of("task_send")]
        assert all(sent)
        assert np.all(np.diff([t for t, _ in seconds(run)]) >= 0)


def test_durations_of_a_registry_reach_the_engine(run_engine: RunEngine, config_of: ConfigOf, tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_text("client,duration_s\n0,3\n1,5.5\n2,4\n", encoding="utf-8")
    run = run_engine(
        config_of(
            **sized(3, 3, 3),
            delays__model="registry",
            delays__registry=str(file),
            gate__enabled=False,
            limits__max_bins=1,
        )
    )
    assert seconds(run) == [(5.5, [0, 2, 1])]
