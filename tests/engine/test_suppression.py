"""What a run sends: full weights once per client and version, and bytes as they travelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engine_worlds import CADENCES, OVER_COMMIT, ConfigOf, RunEngine

from fluxctl.engine.messages import Train
from fluxctl.types import PayloadKind, Verdict

GUIDED: dict[str, Any] = {"step__perturbation": "cosine_guided", "step__alternate": False}


class TestMessages:
    @pytest.mark.feature("B1")
    @pytest.mark.parametrize("selection", ["bin", "iteration"])
    @CADENCES
    def test_at_most_one_full_payload_per_client_and_version(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        null_workload: Any,
        payload_kind: Callable[[Train], Any],
        style: dict[str, Any],
        selection: str,
    ) -> None:
        config = config_of(**style, selection__per=selection, gate__var_threshold=1e-9, gate__max_iterations_per_bin=5)
        workload = null_workload()
        run = run_engine(config, workload=workload)
        full = [(t.client, t.version) for t in workload.received if payload_kind(t) is PayloadKind.WEIGHTS]
        short = [(t.client, t.version) for t in workload.received if payload_kind(t) is PayloadKind.KEEP_GOING]
        assert len(full) + len(short) == len(workload.received)
        assert len(set(full)) == len(full)
        assert short
        assert set(short) <= set(full)
        assert run.engine.aggregator._dispatcher.sender.num_suppressed >= len(short)
        comm = [event for event in run.of("comm") if event["direction"] == "down"]
        assert {event["payload"] for event in comm} == {"weights", "keep_going"}
        assert max(e["bytes"] for e in comm if e["payload"] == "keep_going") < 100

    @pytest.mark.feature("B1")
    def test_switched_off_every_message_is_full(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, payload_kind: Callable[[Train], Any]
    ) -> None:
        workload = null_workload()
        run = run_engine(config_of(messages__suppress_redundant_weights=False), workload=workload)
        assert {payload_kind(task) for task in workload.received} == {PayloadKind.WEIGHTS}
        assert run.of("agg_round")[-1]["redundant_suppressed_total"] == 0

    @pytest.mark.feature("B1")
    def test_suppression_changes_bytes_and_nothing_else(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        on, off = (
            run_engine(config_of(messages__suppress_redundant_weights=flag), workload="learner")
            for flag in (True, False)
        )
        assert on.commits == off.commits
        assert on.engine.recorder.totals.bytes_down < off.engine.recorder.totals.bytes_down

    @pytest.mark.feature("B1", "A9")
    @pytest.mark.parametrize("num_workers", [0, 1, 3])
    def test_a_cancelled_client_has_what_it_was_sent(
        self, run_engine: RunEngine, config_of: ConfigOf, num_workers: int
    ) -> None:
        """Over-committed, retried, and told to keep going with weights that came with the cancelled task."""
        config = config_of(
            clients__num_clients=6,
            **OVER_COMMIT,
            selection__per="bin",
            gate__var_threshold=1e-9,
            gate__max_iterations_per_bin=4,
        )
        run = run_engine(config, workload="learner", num_workers=num_workers)
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED

    @pytest.mark.feature("B1")
    @CADENCES
    def test_no_deadlock_when_the_gate_passes_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        run = run_engine(config_of(**style, gate__var_threshold=1e9), workload="learner")
        assert run.stop.verdict is Verdict.COMPLETED
        assert {event["commit_reason"] for event in run.of("agg_round")} == {"natural"}
        assert len(run.commits) == 6

    @pytest.mark.feature("B1")
    def test_guided_bins_are_sent_the_last_aggregate_too(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, payload_kind: Callable[[Train], Any]
    ) -> None:
        for alternate, guided_versions in ((False, {1, 2, 3, 4, 5}), (True, {1, 3, 5})):
            workload = null_workload()
            run_engine(config_of(**{**GUIDED, "step__alternate": alternate}), workload=workload)
            guided = {t.version for t in workload.received if payload_kind(t) is PayloadKind.WEIGHTS_AND_GRADIENT}
            assert guided == guided_versions

    @pytest.mark.feature("C16")
    def test_sizes_are_those_of_the_bytes_that_travelled(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any
    ) -> None:
        workload = null_workload()
        run = run_engine(config_of(), workload=workload)
        down = sorted(e["bytes"] for e in run.of("comm") if e["direction"] == "down")
        assert down == sorted(len(task.payload) for task in workload.received)
        totals = run.engine.recorder.totals
        assert totals.bytes_down == sum(down)
        assert totals.bytes_up == sum(e["bytes"] for e in run.of("comm") if e["direction"] == "up") > 0
