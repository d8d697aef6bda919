"""How runs end: limits, divergence, requests; and how they begin: the wait for trainers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fluxctl.config.model import Config
from fluxctl.engine import trainer as trainer_module
from fluxctl.engine.aggregator import RegistrationError
from fluxctl.errors import ExitCode
from fluxctl.types import NS_PER_S, Verdict

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
WAIT_S = 30.0  # only ever reached by a test that fails
OVER_COMMIT: dict[str, Any] = {"aggregation__goal": 3, "aggregation__concurrency": 6}
REAL: dict[str, Any] = {"mode": "real", "engine__wall_factor": 100.0}  # D of 1 to 10 s take 10 to 100 ms


class TestStartBarrier:
    @pytest.mark.feature("A30")
    def test_the_first_selection_waits_for_everybody(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the wall, with threads that start one after the other, the last first."""
        order: list[int] = []
        selected = threading.Event()
        real_run = trainer_module.Trainer.run
        turns = [threading.Event() for _ in range(4)]
        turns[2].set()

        def run_in_turn(self: Any) -> None:
            assert turns[self.index].wait(WAIT_S)
            assert not selected.is_set()
            order.append(self.index)
            if self.index:
                turns[self.index - 1].set()
            real_run(self)

        monkeypatch.setattr(trainer_module.Trainer, "run", run_in_turn)
        workload = null_workload(before=lambda task: selected.set())
        run = run_engine(config_of(**REAL, limits__max_bins=1), workload=workload)
        assert run.error is None
        assert order == [2, 1, 0]
        assert run.of("selection")[0]["num_chosen"] == 3

    @pytest.mark.feature("A30")
    @pytest.mark.parametrize("mode", [{}, {"mode": "real", "engine__register_timeout_s": 0.05}], ids=["sim", "real"])
    def test_who_is_missing_is_named(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        monkeypatch: pytest.MonkeyPatch,
        mode: dict[str, Any],
    ) -> None:
        real_run = trainer_module.Trainer.run
        monkeypatch.setattr(
            trainer_module.Trainer, "run", lambda self: None if self.index in (1, 3) else real_run(self)
        )
        run = run_engine(config_of(**OVER_COMMIT, **mode))
        assert isinstance(run.error, RegistrationError)
        assert "only 4 of 6 trainers registered; missing: 1, 3" in run.error.message
        assert run.error.exit_code is ExitCode.RUN_BROKE
        assert run.of("selection") == []

    @pytest.mark.feature("A30")
    def test_with_fewer_required_a_late_trainer_joins(
        self, run_engine: RunEngine, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_run, late = trainer_module.Trainer.run, threading.Event()

        def run_late(self: Any) -> None:
            if self.index == 5:
                assert late.wait(WAIT_S)
            real_run(self)

        monkeypatch.setattr(trainer_module.Trainer, "run", run_late)
        run = run_engine(config_of(**OVER_COMMIT, **REAL, clients__min_clients=2), on_tick=lambda engine: late.set())
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        assert run.of("selection")[0]["num_chosen"] == 6


class TestStopping:
    @pytest.mark.feature("A23")
    @pytest.mark.parametrize(
        ("limits", "verdict", "reason"),
        [
            ({"limits__max_bins": 4}, Verdict.COMPLETED, "4"),
            ({"limits__max_bins": None, "limits__max_rounds": 1}, Verdict.COMPLETED, "1"),
            ({"limits__max_bins": 4, "limits__target_accuracy": 1.0}, Verdict.DID_NOT_CONVERGE, "target"),
            ({"limits__target_accuracy": 1e-6, "limits__converge_window": 3}, Verdict.CONVERGED, "3 bins in a row"),
        ],
    )
    def test_limits(
        self, run_engine: RunEngine, config_of: ConfigOf, limits: dict[str, Any], verdict: Verdict, reason: str
    ) -> None:
        run = run_engine(config_of(**limits))
        assert run.stop.verdict is verdict
        assert reason in run.stop.reason
        assert run.of("agg_round")[-1]["stop_reason"] == run.stop.reason
        assert all(event["stop_reason"] is None for event in run.of("agg_round")[:-1])

    @pytest.mark.feature("A23")
    @pytest.mark.parametrize("style", ["sync", "async"])
    def test_nothing_happens_beyond_the_engine_budget(
        self, run_engine: RunEngine, config_of: ConfigOf, style: str
    ) -> None:
        """Even though everybody who is asked delivers, and a little later would complete a cycle."""
        limits: dict[str, Any] = {"limits__max_bins": None, "aggregation__style": style}
        longer = run_engine(config_of(**limits, limits__max_runtime_s=120.0))
        run = run_engine(config_of(**limits, limits__max_runtime_s=60.0))
        assert run.stop.verdict is Verdict.COMPLETED
        assert "60" in run.stop.reason
        assert run.engine.aggregator.logical_now == 60 * NS_PER_S
        assert max(event["t_ns"] for event in run.events) <= 60 * NS_PER_S
        assert run.commits == [commit for commit in longer.commits if commit[0] <= 60 * NS_PER_S]
        assert len(longer.commits) > len(run.commits)

    @pytest.mark.feature("A23")
    def test_the_engine_budget_ends_a_bin_that_never_commits(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        run = run_engine(
            config_of(
                gate__stopping_policy="off",
                gate__var_threshold=1e-12,
                limits__max_bins=None,
                limits__max_runtime_s=300.0,
            )
        )
        assert run.stop.verdict is Verdict.NO_ROUNDS
        assert {event["commit_reason"] for event in run.of("agg_round")} == {None}
        assert max(event["engine_s"] for event in run.of("agg_round")) < 300.0

    @pytest.mark.feature("A23", "B16")
    def test_non_finite_weights_end_the_run_and_the_last_good_ones_are_kept(
        self, run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any
    ) -> None:
        class Exploding(stub_learner):  # type: ignore[misc]
            def step(self, request: Any) -> Any:
                result = super().step(request)
                result.gradient[:] = float("inf")
                return result

        run = run_engine(
            config_of(limits__divergence_guard=True, gate__enabled=False), workload="learner", learner=Exploding()
        )
        assert run.stop.verdict is Verdict.DIVERGED
        assert len(run.commits) == 1
        trainer = run.engine.bin_trainer
        assert not trainer.is_finite()
        assert np.isfinite(trainer.last_good_params.numpy()).all()

    @pytest.mark.feature("A23")
    @pytest.mark.parametrize("mode", [{}, REAL], ids=["sim", "real"])
    def test_a_request_ends_a_run_within_seconds(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        """Nothing would end this run for days; on the wall it is asked while everybody sleeps."""
        asked: list[float] = []

        def ask(engine: Any) -> None:
            asked.append(time.monotonic())
            engine.request_stop("enough")
            engine.request_stop("asked twice")

        endless = {"limits__max_bins": None, "limits__max_runtime_s": 1e9, "delays__high_s": 1e5, **mode}
        run = run_engine(config_of(**endless), on_tick=ask)
        assert run.stop.verdict is Verdict.INTERRUPTED
        assert run.stop.reason == "enough"
        assert time.monotonic() - asked[0] < 5.0
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A23")
    def test_a_request_before_the_start_counts(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        run = run_engine(config_of(), before_run=lambda engine: engine.request_stop("changed my mind"))
        assert (run.stop.verdict, run.stop.reason) == (Verdict.INTERRUPTED, "changed my mind")
        assert run.commits == []

    @pytest.mark.feature("A23")
    def test_a_run_that_has_just_ended_was_not_interrupted(
        self, run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any
    ) -> None:
        class AskLate(stub_learner):  # type: ignore[misc]
            engine: Any = None

            def evaluate(self, params: Any) -> Any:
                if self.engine.aggregator.cadence.num_commits == 2:
                    self.engine.request_stop("too late")
                return super().evaluate(params)

        learner = AskLate()
        run = run_engine(
            config_of(limits__max_bins=2),
            learner=learner,
            before_run=lambda engine: setattr(learner, "engine", engine),
        )
        assert run.stop.verdict is Verdict.COMPLETED
