"""Fewer clients than slots: waiting, jumping, starving, and filling up again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from engine_worlds import ASYNC, AWAY, ORACLE, STYLES, ConfigOf, RunEngine, TraceOf, sized

from fluxctl.types import NS_PER_S, Verdict


class TestScarcity:
    @pytest.mark.feature("A24")
    def test_a_sync_cycle_waits_for_the_clients_that_it_lacks(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of({2: [(0, "-"), (70, "T")]}, 3)
        run = run_engine(config_of(**ORACLE, **sized(3, 3, 3)), trace=trace)
        assert run.seconds == [(80, [0, 1, 2])]
        assert run.dispatches(2) == [70]
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
        assert run.seconds == [(later + 10, [0, 1, 2])]
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
        assert [t for t, _ in run.seconds] == [10, 20, 30]
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
        assert [t for t, _ in run.seconds] == [10]

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
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        """Two of three slots stay free although clients are there: asked at each turn, not at each nanosecond."""
        selector = lowest_first(only={0})
        config = config_of(**{**ORACLE, **ASYNC, "limits__max_bins": 5}, **sized(4, 1, 3))
        run = run_engine(
            config,
            trace=trace_of({3: [(0, "-"), (25, "T")]}, 4),
            before_run=lambda engine: setattr(engine.aggregator._dispatcher.cohorts, "_selector", selector),
        )
        assert [t for t, _ in run.seconds] == [10, 20, 30, 40, 50]
        assert selector.num_asked < 15

    @pytest.mark.feature("A24")
    def test_a_cohort_that_is_kept_is_completed_by_others(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        """Per bin, two iterations. Client 0 is away for the second one: client 2 comes in for it, client 1 stays."""
        trace = trace_of({0: [(0, "T"), (10, "-"), (500, "T")]}, 3)
        config = config_of(
            **{**ORACLE, "gate__enabled": True, "gate__var_threshold": 1e-9}, **sized(3, 2, 2), selection__per="bin"
        )
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert [event["chosen"] for event in run.of("selection")][:1] == [[0, 1]]
        # Ready at 10, in the instant in which client 0 goes: its update is evicted, and client 2 is its substitute.
        assert [event["chosen"] for event in run.of("selection")] == [[0, 1], [2], [1, 2]]
        assert [event["kept"] for event in run.of("selection")] == [False, False, True]
        assert run.seconds == [(20, [1, 2]), (30, [1, 2])]


class TestRefill:
    @pytest.mark.feature("A19", "C11")
    def test_one_after_another_or_all_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        base = {**AWAY, **ASYNC, "limits__max_bins": 2, **sized(6, 3, 3)}
        at_once = run_engine(config_of(**base), trace=trace_of({}, 6), selector=lowest_first())
        staggered = run_engine(
            config_of(**base, aggregation__refill="staggered", aggregation__stagger_s=4.0),
            trace=trace_of({}, 6),
            selector=lowest_first(),
        )
        assert [(e["dispatch_ns"], e["stagger_s"]) for e in at_once.of("dispatch")[:3]] == [(0, 0.0)] * 3
        assert [(e["dispatch_ns"] / NS_PER_S, e["stagger_s"]) for e in staggered.of("dispatch")[:3]] == [
            (0, 0.0),
            (4, 4.0),
            (8, 8.0),
        ]
        assert [t for t, _ in at_once.seconds] == [10, 20]
        assert [t for t, _ in staggered.seconds] == [18, 36]
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
