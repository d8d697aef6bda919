"""Clients that are given up: silent ones that come late, and those whose work is lost."""

from __future__ import annotations

import time
from typing import Any

import pytest
from engine_worlds import ASYNC, AWAY, COPING, ORACLE, ConfigOf, RunEngine, TraceOf, sized

from fluxctl.types import NS_PER_S, Verdict


class TestAbandonment:
    """Client 0 is away from 5 to 200 s; the aggregator does not know, and waits for 90 s."""

    CHANGES: dict[int, Any] = {0: [(0, "T"), (5, "-"), (200, "T")]}

    @pytest.mark.feature("A14", "C13", "C12")
    @pytest.mark.parametrize("staleness", ["accept", "exact"])
    def test_a_silent_client_is_given_up_and_its_late_update_is_judged(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, staleness: str, lowest_first: Any
    ) -> None:
        """C = K = 1 of two: from 90 s on client 1 commits every 10 s, ten times before the late update is there.

        At 200 both are due after 10 s of work, so the lower number goes first, at version 10, and client 1 follows.
        """
        config = config_of(
            **{**AWAY, **ASYNC, "aggregation__staleness__name": staleness, "limits__max_bins": 13}, **sized(2, 1, 1)
        )
        started = time.monotonic()
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), selector=lowest_first())
        assert time.monotonic() - started < 30.0  # not the 200 s that passed
        [event] = run.of("abandon")
        assert (event["t_ns"], event["now_ns"], event["dispatch_ns"]) == (90 * NS_PER_S, 90 * NS_PER_S, 0)
        assert (event["client"], event["age_s"], event["reason"]) == (0, 90.0, "silent")
        assert run.dispatches(1)[:11] == [90, *range(100, 200, 10)]  # its slot is refilled at once
        assert run.dispatches(0)[:1] == [0]
        alone = [(t, [1]) for t in range(100, 200, 10)]
        [withheld] = run.of("withheld_delivery")
        assert (withheld["staleness"], withheld["after_abandon"]) == (10, True)
        if staleness == "accept":
            assert run.seconds[:12] == [*alone, (200, [0]), (200, [1])]
            assert withheld["accepted"] is True
            assert run.engine.recorder.totals.stale_rejected == 0
            assert run.of("agg_round")[10]["staleness"] == [10]
            intervals = [event["contributor_intervals"] for event in run.of("agg_round")]
            assert intervals[10] == [{"client": 0, "dispatch": 0.0, "commit": 200.0, "late": True}]
            assert not any("late" in interval for cycle in intervals[:10] for interval in cycle)
        else:
            assert run.seconds[:11] == [*alone, (200, [1])]
            assert withheld["accepted"] is False
            assert run.engine.recorder.totals.stale_rejected == 1
        # It can be asked again as soon as its update is here, and not before: it has the lowest number.
        assert run.dispatches(0)[1] == 200
        assert run.engine.recorder.totals.abandoned == 1
        assert run.ledger.given_up == [(0, 90 * NS_PER_S, 200 * NS_PER_S)]

    @pytest.mark.feature("A14")
    def test_how_long_is_configurable(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        config = config_of(**AWAY, **ASYNC, **sized(2, 1, 1), engine__abandon_after_s=33.5)
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), selector=lowest_first())
        [event] = run.of("abandon")
        assert (event["now_ns"], event["age_s"]) == (33_500_000_000, 33.5)
        assert run.seconds == [(43.5, [1])]

    @pytest.mark.feature("A14")
    def test_who_answers_in_the_last_instant_is_not_given_up(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        trace = trace_of({0: [(0, "T"), (5, "-"), (90, "T")]}, 2)
        run = run_engine(config_of(**AWAY, **ASYNC, **sized(2, 1, 1)), trace=trace, selector=lowest_first())
        assert run.of("abandon") == []
        assert run.seconds == [(90, [0])]

    @pytest.mark.feature("A14")
    def test_a_client_that_is_slower_than_anybody_waits_is_not_asked_twice(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """D is 100 s: given up at 90, delivered at 100, and only then asked again."""
        config = config_of(**{**AWAY, **ASYNC, "delays__high_s": 100.0, "limits__max_bins": 3}, **sized(1, 1, 1))
        run = run_engine(config, trace=trace_of({}, 1))
        assert run.dispatches(0) == [0, 100, 200]
        assert run.seconds == [(100, [0]), (200, [0]), (300, [0])]
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
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        knowledge: dict[str, Any],
        noticed: int,
        lowest_first: Any,
    ) -> None:
        config = config_of(**{**AWAY, **ASYNC, **knowledge, "limits__max_bins": 30}, **sized(2, 1, 1))
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), selector=lowest_first())
        [event] = run.of("abandon")
        assert (event["client"], event["reason"], event["age_s"]) == (0, "boundary", float(noticed))
        assert event["now_ns"] == noticed * NS_PER_S
        assert run.dispatches(1)[0] == noticed
        assert run.dispatches(0)[1] >= 200
        [late] = run.of("withheld_delivery")
        assert (late["client"], late["delivery_ns"], late["after_abandon"]) == (0, 200 * NS_PER_S, True)

    @pytest.mark.feature("A26")
    def test_without_eviction_only_silence_counts(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        config = config_of(**ORACLE, **ASYNC, **sized(2, 1, 1), availability__evict=False)
        run = run_engine(config, trace=trace_of(self.CHANGES, 2), selector=lowest_first())
        [event] = run.of("abandon")
        assert (event["reason"], event["age_s"]) == ("silent", 90.0)

    @pytest.mark.feature("A14", "A10")
    @pytest.mark.parametrize(("staleness", "expected"), [("accept", [0, 1]), ("exact", [1, 2])])
    def test_a_late_client_fills_a_slot_that_nobody_else_could(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        staleness: str,
        expected: list[int],
        lowest_first: Any,
    ) -> None:
        """Async, K = 2, C = N = 3. From 90 s on a slot is free; client 0 is back at 115, between two commits."""
        config = config_of(
            **{**AWAY, **ASYNC, "aggregation__staleness__name": staleness, "limits__max_bins": 12}, **sized(3, 2, 3)
        )
        trace = trace_of({0: [(0, "T"), (5, "-"), (115, "T")]}, 3)
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert run.seconds[:11] == [(10 * k, [1, 2]) for k in range(1, 12)]
        assert run.seconds[11] == (120, expected)
        assert run.dispatches(0) == [0, 115]  # it works on the version that is open

    @pytest.mark.feature("A12", "A14")
    def test_a_late_contributor_is_not_asked_again_for_what_it_has_contributed_to(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2, both given up at 90. Client 0 is back at 95 and counts; the cycle still lacks client 1."""
        trace = trace_of({0: [(0, "T"), (5, "-"), (95, "T")], 1: [(0, "T"), (5, "-"), (130, "T")]}, 2)
        run = run_engine(config_of(**{**AWAY, **ASYNC, "limits__max_bins": 2}, **sized(2, 2, 2)), trace=trace)
        assert run.seconds == [(130, [0, 1]), (140, [0, 1])]
        assert run.dispatches(0) == [0, 130]


class TestLost:
    """Client 0 leaves at 5 s and never comes back."""

    @pytest.mark.feature("A15", "A24")
    @pytest.mark.parametrize("mode", ["continue", "pause", "abort"])
    def test_it_costs_one_timeout_in_all(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, mode: str, lowest_first: Any
    ) -> None:
        """Sync, K = C = 2 of three: one cycle of 90 + 10 s, in which a substitute comes in, and seven of 10 s."""
        config = config_of(**{**AWAY, "limits__max_bins": 8}, **sized(3, 2, 2), availability__on_unavailable=mode)
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 3), selector=lowest_first())
        assert run.stop.verdict is Verdict.COMPLETED
        assert run.seconds == [(100 + 10 * k, [1, 2]) for k in range(8)]
        assert [(e["client"], e["age_s"]) for e in run.of("abandon")] == [(0, 90.0)]
        assert run.dispatches(0) == [0]
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A15")
    def test_many_of_them_cost_one_timeout_each_and_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        """Async, C = 4 of 8, four are dead: all of their timeouts run at the same time."""
        trace = trace_of({client: [(0, "T"), (1, "-")] for client in range(4)}, 8)
        config = config_of(**{**AWAY, **ASYNC, "limits__max_bins": 10}, **sized(8, 2, 4))
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert {event["now_ns"] for event in run.of("abandon")} == {90 * NS_PER_S}
        assert len(run.of("abandon")) == 4
        # 90 s, and then 4 clients of 10 s each: two commits of two every 10 s
        assert [t for t, _ in run.seconds] == [100 + 10 * (k // 2) for k in range(10)]

    @pytest.mark.feature("A15", "A36")
    def test_a_client_whose_work_was_lost_is_asked_again_when_it_is_back(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2, so the cycle waits for it: given up at 90, back at 300."""
        trace = trace_of({0: [(0, "T"), (5, "-"), (300, "T")]}, 2)
        config = config_of(**{**AWAY, "limits__max_bins": 2}, **sized(2, 2, 2), availability__on_unavailable="abort")
        run = run_engine(config, trace=trace)
        assert run.seconds == [(310, [1, 0]), (320, [0, 1])]
        assert run.dispatches(0) == [0, 300, 310]
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
        lowest_first: Any,
    ) -> None:
        def fail(task: Any) -> None:
            assert task.client != 0

        config = config_of(**{**AWAY, "limits__max_bins": 3}, **sized(3, 2, 2), **mode)
        trace = trace_of({0: [(0, "T"), (5, "-")]}, 3)
        run = run_engine(config, trace=trace, selector=lowest_first(), workload=null_workload(before=fail))
        assert run.error is None
        assert run.seconds == [(100 + 10 * k, [1, 2]) for k in range(3)]

    @pytest.mark.feature("A15", "A24")
    def test_who_cannot_be_replaced_ends_the_run(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        """N = C = K = 2: no cycle closes below K. One that may shrink does, and so do all after it."""
        away = {**AWAY, "limits__max_bins": 3, **sized(2, 2, 2)}
        trace = trace_of({0: [(0, "T"), (15, "-")]}, 2)
        run = run_engine(config_of(**away), trace=trace)
        assert run.stop.verdict is Verdict.STARVED
        assert run.seconds == [(10, [0, 1])]
        shrinking = run_engine(config_of(**away, availability__on_lost="shrink"), trace=trace)
        assert shrinking.stop.verdict is Verdict.COMPLETED
        assert shrinking.seconds == [(10, [0, 1]), (100, [1]), (110, [1])]

    @pytest.mark.feature("A24", "A15")
    def test_shrink_closes_the_cycle_without_it(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        config = config_of(**{**AWAY, "limits__max_bins": 3}, **sized(4, 3, 3), availability__on_lost="shrink")
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 4), selector=lowest_first())
        assert run.seconds == [(90, [1, 2]), (100, [1, 2, 3]), (110, [1, 2, 3])]
        assert [event["goal_count"] for event in run.of("agg_round")] == [2, 3, 3]
        assert run.dispatches(3)[0] == 90  # not before the next cycle

    @pytest.mark.feature("A24")
    @pytest.mark.parametrize(("num_lost", "expected"), [(2, (10, [2, 3])), (3, (90, [3])), (4, (100, [4, 5]))])
    def test_shrink_counts_what_can_still_come(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        num_lost: int,
        expected: Any,
        lowest_first: Any,
    ) -> None:
        """K = 2 of C = 4: with two lost, two are left and nobody waits; with four lost there is no cycle to close."""
        trace = trace_of({client: [(0, "T"), (5, "-")] for client in range(num_lost)}, 8)
        config = config_of(**AWAY, **sized(8, 2, 4), availability__on_lost="shrink")
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert run.seconds == [expected]

    @pytest.mark.feature("A24")
    def test_shrink_leaves_the_goal_while_enough_are_left(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        """K = 2 of C = 3, started 4 s apart. Client 0 is evicted at 10, when it is due; the others come later."""
        config = config_of(
            **ORACLE,
            **sized(3, 2, 3),
            availability__on_lost="shrink",
            aggregation__refill="staggered",
            aggregation__stagger_s=4.0,
        )
        run = run_engine(config, trace=trace_of({0: [(0, "T"), (5, "-")]}, 3), selector=lowest_first())
        assert [event["now_ns"] for event in run.of("abandon")] == [10 * NS_PER_S]
        assert run.seconds == [(18, [1, 2])]
