"""Whole runs: determinism, isolation of threads, budgets, failures, and messages."""

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
from fluxctl.engine.collector import TrainerFailedError
from fluxctl.engine.messages import Train
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.errors import ExitCode
from fluxctl.types import NS_PER_S, PayloadKind, Verdict
from fluxctl.world.delays import build_delays

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
WAIT_S = 30.0  # only ever reached by a test that fails
OVER_COMMIT: dict[str, Any] = {"aggregation__goal": 3, "aggregation__concurrency": 6}
ASYNC: dict[str, Any] = {
    "aggregation__style": "async",
    "aggregation__goal": 3,
    "aggregation__concurrency": 6,
    "aggregation__staleness__name": "downweight",
}
GUIDED: dict[str, Any] = {"step__perturbation": "cosine_guided", "step__alternate": False}
STYLES = pytest.mark.parametrize("style", [{}, OVER_COMMIT, ASYNC], ids=["sync", "over", "async"])
REAL: dict[str, Any] = {"mode": "real", "engine__wall_factor": 100.0}  # D of 1 to 10 s take 10 to 100 ms


class TestThreads:
    @pytest.mark.feature("A1", "A32")
    @STYLES
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_clients_and_server_never_share_a_thread(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        null_workload: Any,
        stub_learner: Any,
        style: dict[str, Any],
        num_workers: int,
    ) -> None:
        config, workload, learner = config_of(**style), null_workload(), stub_learner()
        run_engine(config, workload=workload, learner=learner, num_workers=num_workers)
        assert len(learner.evaluation_threads) == 1  # the aggregator's
        here = learner.evaluation_threads | {threading.get_ident()}
        assert not here & workload.step_threads
        if num_workers == 0:
            assert len(workload.step_threads) >= config.aggregation.concurrency  # each step in its trainer's thread

    @pytest.mark.feature("A1", "B1")
    @STYLES
    def test_a_client_has_its_messages_in_the_order_in_which_they_were_sent(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, stub_learner: Any, style: dict[str, Any]
    ) -> None:
        """However late threads are: a cancelled task's weights must not arrive after those of the next one."""
        workload, learner = null_workload(), stub_learner()
        run = run_engine(config_of(**style), workload=workload, learner=learner)
        assert workload.receive_threads == learner.evaluation_threads  # the aggregator hands them over itself
        sent = [event["task"] for event in run.of("dispatch")]
        assert sorted(task.task_id for task in workload.received) == sorted(sent)
        assert [task.task_id for task in workload.received] == sorted(sent)  # ids count dispatches

    @pytest.mark.feature("A4")
    @STYLES
    def test_a_simulation_never_sleeps(
        self, run_engine: RunEngine, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, style: dict[str, Any]
    ) -> None:
        """No thread of a simulation enters a wait that has a duration; the main thread only joins."""
        timed: list[str] = []
        real_wait = threading.Condition.wait

        def wait(self: threading.Condition, timeout: float | None = None) -> bool:
            if timeout is not None:
                timed.append(threading.current_thread().name)
            return real_wait(self, timeout)

        def sleep(_: float) -> None:
            timed.append(f"sleep in {threading.current_thread().name}")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Condition, "wait", wait)
            patch.setattr(time, "sleep", sleep)
            run = run_engine(config_of(**style, limits__max_bins=10))
        assert run.stop.verdict is Verdict.COMPLETED
        assert run.commits[-1][0] > 10 * NS_PER_S  # there was a lot to sleep through
        assert timed == []


class TestDeterminism:
    @pytest.mark.feature("A32")
    @STYLES
    def test_results_do_not_depend_on_lookahead(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        config = config_of(**style)
        hashes = {run_engine(config, workload="learner", num_workers=workers).hash for workers in (0, 1, 3)}
        assert len(hashes) == 1

    @pytest.mark.feature("A28")
    def test_a_seed_is_a_run(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        runs = [run_engine(config_of(**ASYNC, seed=seed), workload="learner") for seed in (1, 1, 2)]
        assert runs[0].hash == runs[1].hash != runs[2].hash
        assert runs[0].commits != runs[2].commits

    @pytest.mark.feature("A28")
    def test_an_extra_iteration_of_one_client_changes_nothing_for_others(self) -> None:
        """Each task draws from its own stream, so what one client does cannot shift the numbers of another."""
        from fluxctl.world.seeds import stream

        def draws(tasks: list[tuple[int, int, int]]) -> dict[tuple[int, int, int], bytes]:
            return {
                (client, version, iteration): stream(
                    3, "tangent", client=client, version=version, iteration=iteration, attempt=0
                )
                .normals(8)
                .tobytes()
                for client, version, iteration in tasks
            }

        plain = [(client, version, 0) for version in range(3) for client in range(4)]
        extra = [*plain[:5], (2, 0, 1), *plain[5:]]
        with_extra = draws(extra)
        assert all(with_extra[task] == numbers for task, numbers in draws(plain).items())
        assert len(set(with_extra.values())) == len(extra)

    @pytest.mark.feature("A28")
    def test_a_step_that_is_taken_twice_changes_nothing_for_others(
        self, run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any
    ) -> None:
        """The same within a run: client 3 computes each of its steps once more."""

        class Again(stub_learner):  # type: ignore[misc]
            def step(self, request: Any) -> Any:
                if 3 * 8 <= request.samples[0] < 4 * 8:  # a sample of client 3
                    super().step(request)
                return super().step(request)

        config = config_of(clients__num_clients=4, limits__max_bins=8)
        plain = run_engine(config, workload="learner")
        again = run_engine(config, workload="learner", learner=Again())
        assert again.hash == plain.hash

    @pytest.mark.feature("A28")
    def test_selections_carry_fingerprints_of_what_was_offered_and_chosen(
        self, run_engine: RunEngine, config_of: ConfigOf
    ) -> None:
        from fluxctl.engine.ledger import set_fingerprint

        run, in_flight = run_engine(config_of(**ASYNC)), set[int]()
        events = [event for event in run.events if event["event"] in ("selection", "agg_round")]
        assert len(events) > 10
        for event in events:
            if event["event"] == "agg_round":
                in_flight -= set(event["contributing_trainers"])
                continue
            eligible = tuple(set(range(12)) - in_flight)
            assert event["eligible_fingerprint"] == f"{set_fingerprint(eligible):016x}"
            assert event["num_eligible"] == len(eligible)
            assert event["decision_fingerprint"] == f"{set_fingerprint(tuple(event['chosen'])):016x}"
            assert set(event["chosen"]) <= set(eligible)
            in_flight |= set(event["chosen"])

    @pytest.mark.feature("A28")
    def test_no_two_selections_draw_from_one_stream(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        """Not even those within one version and iteration, which refill the slots of rejected updates."""
        keys: list[tuple[int, int]] = []

        def spy(engine: Any) -> None:
            cohorts = engine.aggregator._dispatcher.cohorts
            selector = cohorts._selector

            class Spy:
                initial_state = staticmethod(selector.initial_state)

                def select(self, view: Any, num: int, stream: Any, state: Any) -> Any:
                    keys.append(stream.key)
                    return selector.select(view, num, stream, state)

            cohorts._selector = Spy()

        run = run_engine(config_of(**{**ASYNC, "aggregation__staleness__name": "exact"}), before_run=spy)
        moments = [(event["round"], event["bin"], event["iteration"]) for event in run.of("selection")]
        assert len(keys) == len(moments) > len(set(moments))
        assert len(set(keys)) == len(keys)

    @pytest.mark.feature("G5")
    @pytest.mark.parametrize(
        "flags",
        [
            {"engine__num_workers": 3},
            {"engine__reorder_slack_s": 5.0},
            {"engine__abandon_after_s": 500.0},
            {"engine__trainer_retries": 7},
            {"engine__on_trainer_error": "drop"},
            {"engine__register_timeout_s": 2.0},
            {"engine__wall_factor": 9.0},
            {"clients__min_clients": 6},
            {"limits__max_wall_s": 1e9},
            {"limits__max_rounds": 10**6},
            {"limits__target_accuracy": None},
            {"delays__factor": 1.0},
            {"delays__compute_model": "per_pass", "delays__reference_passes": 2},  # a step of two passes
            {"engine__commit_order": "arrival"},  # on a punctual clock
            {"engine__charge_compute": "modelled"},
            {"gate__plateau_window": 9},  # not the policy in use
        ],
        ids=lambda flags: next(iter(flags)).split("__")[1],
    )
    def test_a_flag_that_is_off_leaves_the_hash(
        self, run_engine: RunEngine, config_of: ConfigOf, flags: dict[str, Any]
    ) -> None:
        plain = run_engine(config_of(**ASYNC))
        assert run_engine(config_of(**{**ASYNC, **flags})).hash == plain.hash

    def test_durations_off_make_every_task_a_millisecond(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        run = run_engine(config_of(delays__enabled=False))
        assert {event["modelled_d_s"] for event in run.of("trainer_round")} == {0.001}


class TestComputeModel:
    @pytest.mark.feature("A35")
    def test_more_passes_take_longer_under_per_pass(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        steps = {"step__perturbation": "max_jvp", "step__num_directions": 10}  # 20 passes
        charged = {"delays__compute_model": "per_pass", "delays__reference_passes": 2, "delays__compute_frac": 0.7}
        plain = run_engine(config_of(**steps))
        scaled = run_engine(config_of(**steps, **charged))
        delays = build_delays(config_of().delays, 0)
        for run, factor in ((plain, 1.0), (scaled, 0.3 + 0.7 * 20 / 2)):
            for event in run.of("task_send"):
                duration = delays.duration_ns(event["client"])
                assert event["due_ns"] - event["recv_ns"] == pytest.approx(factor * duration, rel=1e-8)

    @pytest.mark.feature("A3")
    def test_measured_compute_counts_only_beyond_the_modelled_duration(self) -> None:
        from fluxctl.data.worlds import build_world
        from fluxctl.engine.run import _due_rule

        task = Train(
            0, 1, 0, 0, 0, 0, 0, dispatch_ns=100, done_ns=150, earliest_due_ns=150, duration_ns=50, payload=b""
        )
        configs = [Config.model_validate({"engine": {"charge_compute": mode}}) for mode in ("modelled", "measured")]
        modelled, measured = (_due_rule(config, build_world(config), 1.0) for config in configs)
        assert [modelled(task, compute) for compute in (0, 50, 80)] == [150, 150, 150]
        assert [measured(task, compute) for compute in (0, 50, 80)] == [150, 150, 180]
        on_a_faster_wall = _due_rule(configs[1], build_world(configs[1]), 2.0)
        assert [on_a_faster_wall(task, compute) for compute in (0, 25, 40)] == [150, 150, 180]


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


class TestFailures:
    @pytest.mark.feature("A31")
    @pytest.mark.parametrize("mode", [{}, {"mode": "real"}], ids=["sim", "real"])
    def test_fail_tells_the_client_at_once(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        """D is hours, on the wall too; the failure is known within the second."""
        raised: list[float] = []

        def fail(task: Train) -> None:
            if len(workload.steps) == 2:
                raised.append(time.monotonic())
                raised.append(task.client)
                raise NotImplementedError("no such kernel")

        workload = null_workload(before=fail)
        run = run_engine(config_of(delays__low_s=9e3, delays__high_s=9e4, **mode), workload=workload)
        assert isinstance(run.error, TrainerFailedError)
        assert time.monotonic() - raised[0] < 1.0
        assert f"client {raised[1]} raised NotImplementedError: no such kernel" in run.error.message
        assert 'raise NotImplementedError("no such kernel")' in run.error.detail
        assert run.error.exit_code is ExitCode.RUN_BROKE
        assert run.engine.clock.unfinished() == []

    @pytest.mark.feature("A31")
    @pytest.mark.parametrize("mode", [{}, REAL], ids=["sim", "real"])
    @STYLES
    def test_drop_goes_on_without_the_client(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        null_workload: Any,
        style: dict[str, Any],
        mode: dict[str, Any],
    ) -> None:
        config = config_of(**style, **mode, engine__on_trainer_error="drop", limits__max_bins=8)
        delays = build_delays(config.delays, config.seed)
        lost = min(range(12), key=delays.duration_ns)  # the fastest, so it is never surplus

        def fail(task: Train) -> None:
            if task.client == lost:
                raise OSError("disk")

        run = run_engine(config, workload=null_workload(before=fail))
        assert run.stop.verdict is Verdict.COMPLETED
        assert [event["client"] for event in run.of("dispatch")].count(lost) == 1
        assert all(lost not in clients for _, clients, _ in run.commits)
        assert all(len(clients) == 3 for _, clients, _ in run.commits)
        [note] = [note for note in run.notes if note["event"] == "trainer_failed"]
        assert (note["client"], note["error"], note["policy"]) == (lost, "OSError: disk", "drop")

    @pytest.mark.feature("A31", "A15")
    def test_without_a_substitute_the_others_go_on_and_wait_for_nothing(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any
    ) -> None:
        """N = C = K and one is gone: cycles close below K, and none of them waits for an update that cannot come."""

        def fail(task: Train) -> None:
            if task.client == 0:
                raise OSError("disk")

        config = config_of(clients__num_clients=3, engine__on_trainer_error="drop", delays__high_s=2.0)
        run = run_engine(config, workload=null_workload(before=fail))
        assert run.stop.verdict is Verdict.COMPLETED
        assert [len(clients) for _, clients, _ in run.commits][1:] == [2] * (len(run.commits) - 1)
        assert run.engine.clock.now() == run.engine.aggregator.logical_now  # not 90 s later

    @pytest.mark.feature("A31")
    def test_nobody_left_is_starved(self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any) -> None:
        def fail(task: Train) -> None:
            raise OSError("disk")

        run = run_engine(config_of(engine__on_trainer_error="drop"), workload=null_workload(before=fail))
        assert run.stop.verdict is Verdict.STARVED
        assert len(run.of("dispatch")) == 12
        assert run.ledger.num_busy == 0

    @pytest.mark.feature("A31", "B4")
    def test_a_retry_needs_a_slot(self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any) -> None:
        """C falls from 4 to 2 before the failure of client 0 is known: it is asked later, like anybody else."""
        engines: list[Any] = []

        def fail(task: Train) -> None:
            if task.client == 0 and task.task_id <= 4:
                engines[0].aggregator._dispatcher.concurrency = 2
                raise OSError("disk")

        config = config_of(
            clients__num_clients=4, aggregation__style="async", aggregation__staleness__name="accept",
            aggregation__goal=1, aggregation__concurrency=4, engine__on_trainer_error="retry", limits__max_bins=20,
            delays__model="constant", delays__high_s=10.0,
        )  # fmt: skip
        run = run_engine(config, workload=null_workload(before=fail), before_run=engines.append, num_workers=0)
        assert run.error is None  # the ledger has checked that no dispatch went beyond C
        assert run.stop.verdict is Verdict.COMPLETED
        assert [event["client"] for event in run.of("dispatch")].count(0) > 1

    @pytest.mark.feature("A31")
    def test_retry_sends_everything_again(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, payload_kind: Callable[[Train], Any]
    ) -> None:
        failed: list[Train] = []

        def fail_once(task: Train) -> None:
            if task.client == 4 and not failed:
                failed.append(task)
                raise OSError("disk")

        workload = null_workload(before=fail_once)
        run = run_engine(config_of(engine__on_trainer_error="retry", limits__max_bins=8), workload=workload)
        assert run.stop.verdict is Verdict.COMPLETED
        again = next(task for task in workload.steps if task.client == 4 and task.task_id != failed[0].task_id)
        assert (again.version, again.iteration) == (failed[0].version, failed[0].iteration)
        assert again.attempt == failed[0].attempt + 1
        assert payload_kind(again) is PayloadKind.WEIGHTS
        assert again.dispatch_ns == failed[0].earliest_due_ns

    @pytest.mark.feature("A31")
    def test_retries_run_out(self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any) -> None:
        def fail(task: Train) -> None:
            if task.client == 4:
                raise OSError("disk")

        workload = null_workload(before=fail)
        run = run_engine(config_of(engine__on_trainer_error="retry", engine__trainer_retries=2), workload=workload)
        assert isinstance(run.error, TrainerFailedError)
        assert "client 4 raised OSError: disk" in run.error.message
        assert [task.client for task in workload.steps].count(4) == 3

    @pytest.mark.feature("A31")
    def test_a_success_makes_good_for_a_failure(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any
    ) -> None:
        """Client 4 fails at each first attempt and has one retry: it is never out of them."""

        def fail_first(task: Train) -> None:
            if task.client == 4 and task.attempt == 0:
                raise OSError("disk")

        workload = null_workload(before=fail_first)
        run = run_engine(config_of(engine__on_trainer_error="retry", limits__max_bins=20), workload=workload)
        assert run.stop.verdict is Verdict.COMPLETED
        assert len([note for note in run.notes if note["event"] == "trainer_failed"]) > 2

    def test_a_failing_evaluation_reaches_the_caller(
        self, run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any
    ) -> None:
        class Broken(stub_learner):  # type: ignore[misc]
            def evaluate(self, params: Any) -> Any:
                raise ZeroDivisionError("empty test set")

        run = run_engine(config_of(), learner=Broken())
        assert isinstance(run.error, ZeroDivisionError)
        assert run.engine.clock.unfinished() == []


class TestReorderSlack:
    """Clocks on which updates are later than anybody waits for."""

    @pytest.mark.feature("A16")
    @STYLES
    def test_a_client_that_is_too_late_is_given_up_and_the_run_goes_on(
        self, run_engine: RunEngine, config_of: ConfigOf, late_clock: type[VirtualClock], style: dict[str, Any]
    ) -> None:
        config = config_of(**style, limits__max_bins=8)
        punctual = run_engine(config)
        lost = punctual.commits[0][1][1]
        its_trainer = f"trainer-{punctual.of('selection')[0]['chosen'].index(lost)}"

        def lateness(trainer: str, count: int) -> int:
            return 10**9 * NS_PER_S if (trainer, count) == (its_trainer, 0) else 0

        run = run_engine(config, clock=late_clock(lateness))  # type: ignore[call-arg]
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        [note] = [note for note in run.notes if note["event"] == "reorder_slack_exhausted"]
        due_ns = next(event["due_ns"] for event in run.of("dispatch") if event["client"] == lost)
        assert (note["client"], note["due_ns"], note["slack_s"]) == (lost, due_ns, 90.0)
        assert note["invariant"] == "failed"
        assert [how for client, *_, how in run.ledger.intervals if client == lost] == ["abandon"]
        assert all(lost not in clients for _, clients, _ in run.commits)
        assert all(len(clients) == config.aggregation.goal for _, clients, _ in run.commits)
        assert run.ledger.most_in_flight == config.aggregation.concurrency  # its slot is refilled

    @pytest.mark.feature("A16")
    def test_the_slack_is_configurable(
        self, run_engine: RunEngine, config_of: ConfigOf, late_clock: type[VirtualClock]
    ) -> None:
        def late(_: str, count: int) -> int:
            return 6 * NS_PER_S if count == 0 else 0

        patient = run_engine(config_of(engine__reorder_slack_s=7.0), clock=late_clock(late))  # type: ignore[call-arg]
        hasty = run_engine(config_of(engine__reorder_slack_s=5.0), clock=late_clock(late))  # type: ignore[call-arg]
        assert patient.hash == run_engine(config_of()).hash
        assert len([note for note in hasty.notes if note["event"] == "reorder_slack_exhausted"]) >= 1
        assert hasty.stop.verdict is Verdict.COMPLETED

    @pytest.mark.feature("A14", "A16")
    def test_a_given_up_client_is_idle_again_when_its_update_arrives(
        self, run_engine: RunEngine, config_of: ConfigOf, late_clock: type[VirtualClock]
    ) -> None:
        """It is not selectable in between; N = 4 makes it needed soon."""

        def lateness(trainer: str, count: int) -> int:
            return 120 * NS_PER_S if (trainer, count) == ("trainer-0", 0) else 0

        config = config_of(clients__num_clients=4, limits__max_bins=40)
        run = run_engine(config, clock=late_clock(lateness))  # type: ignore[call-arg]
        lost = run.of("selection")[0]["chosen"][0]
        dispatches = [event["dispatch_ns"] for event in run.of("dispatch") if event["client"] == lost]
        assert dispatches[0] == 0
        assert len(dispatches) > 1
        assert dispatches[1] > 90 * NS_PER_S
        assert lost in run.commits[-1][1] or any(lost in clients for _, clients, _ in run.commits)
        assert run.engine.aggregator._collector.num_late_after_abandon == 1

    @pytest.mark.feature("A15", "A16")
    @pytest.mark.wall
    def test_a_step_that_hangs_costs_one_slack_and_not_the_verdict(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any
    ) -> None:
        """On the wall, with a step that never returns while the run lasts."""
        is_over, hung = threading.Event(), list[int]()

        def hang(task: Train) -> None:
            if not hung:
                hung.append(task.client)
                assert is_over.wait(WAIT_S)
            if len(workload.steps) > 14:
                is_over.set()

        workload = null_workload(before=hang)
        config = config_of(**REAL, engine__reorder_slack_s=20.0, gate__enabled=False)
        run = run_engine(config, workload=workload, num_workers=2)
        is_over.set()
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        assert [n["client"] for n in run.notes if n["event"] == "reorder_slack_exhausted"] == hung
        assert all(len(clients) == 3 for _, clients, _ in run.commits)


class TestMessages:
    @pytest.mark.feature("B1")
    @pytest.mark.parametrize("selection", ["bin", "iteration"])
    @STYLES
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
    @STYLES
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


class TestRealAndSim:
    """The clock is the only thing that differs, so the two runs decide the same to the last bit."""

    @pytest.mark.feature("A1", "A18", "B1", "A9")
    @pytest.mark.wall
    @STYLES
    def test_equal_hashes_whatever_the_jitter(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, style: dict[str, Any]
    ) -> None:
        random = np.random.default_rng(5)
        jitter = iter(random.uniform(0, 0.02, 10_000).tolist())  # against delays of 10 to 100 ms

        def stumble(task: Train) -> None:
            threading.Event().wait(next(jitter))

        real = run_engine(config_of(**style, **REAL), workload=null_workload(before=stumble), num_workers=3)
        sim = run_engine(config_of(**style))
        assert real.commits == sim.commits
        assert real.hash == sim.hash
        assert real.engine.recorder.totals.forward_passes == sim.engine.recorder.totals.forward_passes
        per_update = [
            run.engine.recorder.totals.forward_passes / sum(len(clients) for _, clients, _ in run.commits)
            for run in (real, sim)
        ]
        assert per_update[0] == per_update[1] == 2.0

    @pytest.mark.feature("A1")
    def test_nothing_but_the_clock_asks_for_the_mode(self) -> None:
        """The mode is read where the clock is built and where it is written down."""
        import re
        from pathlib import Path

        import fluxctl.engine

        folder = Path(fluxctl.engine.__file__).parent
        readers = {
            file.name for file in folder.glob("*.py") if re.search(r"config\.mode\b", file.read_text(encoding="utf-8"))
        }
        assert readers == {"run.py", "client_events.py", "session.py"}
        assert (folder / "run.py").read_text(encoding="utf-8").count("config.mode ") == 1
