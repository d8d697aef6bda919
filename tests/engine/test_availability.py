"""Clients that come and go: deliveries, what is charged, shipped traces, and equality of both clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_worlds import ASYNC, AWAY, COPING, KNOWLEDGE, ORACLE, STYLES, TRACKED, ConfigOf, RunEngine, TraceOf, sized

from fluxctl.data.worlds import build_world
from fluxctl.types import NS_PER_S, PayloadKind, Verdict
from fluxctl.world.availability import AVAILABLE, SlotTrace
from fluxctl.world.delays import build_delays, straggler_offset_ns


class TestDelivery:
    @pytest.mark.feature("A26", "C12", "A36")
    def test_what_is_ready_while_its_client_is_away_comes_when_it_is_back(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
    ) -> None:
        trace = trace_of({1: [(0, "T"), (5, "-"), (50, "T")]}, 2)
        run = run_engine(config_of(**AWAY, **sized(2, 2, 2)), trace=trace)
        assert run.seconds == [(50, [0, 1])]
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
        assert run.seconds == expected
        assert run.dispatches(1) == ([0, 90] if mode == "abort" else [0])
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A18", "A26")
    def test_the_slot_is_held_while_an_update_is_withheld(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        """Async, K = 1 of C = 2: the other one goes round alone, and nobody takes the place of who is withheld."""
        trace = trace_of({1: [(0, "T"), (5, "-"), (45, "T")]}, 3)
        config = config_of(**{**AWAY, **ASYNC, "limits__max_bins": 6}, **sized(3, 1, 2))
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert run.seconds == [(10, [0]), (20, [0]), (30, [0]), (40, [0]), (45, [1]), (50, [0])]
        assert [event["staleness"] for event in run.of("agg_round")][4] == [4]
        assert [event["accepted"] for event in run.of("withheld_delivery")] == [True]
        assert run.dispatches(2) == []


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
        assert np.all(np.diff([t for t, _ in run.seconds]) >= 0)


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
    assert run.seconds == [(5.5, [0, 2, 1])]
