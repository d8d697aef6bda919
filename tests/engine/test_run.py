"""Whole runs: isolation of threads, determinism, durations, and equality of both clocks."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from engine_worlds import ASYNC_OF_SIX, CADENCES, REAL, ConfigOf, RunEngine

from fluxctl.config.model import Config
from fluxctl.engine.messages import Train
from fluxctl.types import NS_PER_S, Verdict
from fluxctl.world.delays import build_delays


class TestThreads:
    @pytest.mark.feature("A1", "A32")
    @CADENCES
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
    @CADENCES
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
    @CADENCES
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
    @CADENCES
    def test_results_do_not_depend_on_lookahead(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        config = config_of(**style)
        hashes = {run_engine(config, workload="learner", num_workers=workers).hash for workers in (0, 1, 3)}
        assert len(hashes) == 1

    @pytest.mark.feature("A28")
    def test_a_seed_is_a_run(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        runs = [run_engine(config_of(**ASYNC_OF_SIX, seed=seed), workload="learner") for seed in (1, 1, 2)]
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

        run, in_flight = run_engine(config_of(**ASYNC_OF_SIX)), set[int]()
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

        run = run_engine(config_of(**{**ASYNC_OF_SIX, "aggregation__staleness__name": "exact"}), before_run=spy)
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
        plain = run_engine(config_of(**ASYNC_OF_SIX))
        assert run_engine(config_of(**{**ASYNC_OF_SIX, **flags})).hash == plain.hash

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


class TestRealAndSim:
    """The clock is the only thing that differs, so the two runs decide the same to the last bit."""

    @pytest.mark.feature("A1", "A18", "B1", "A9")
    @pytest.mark.wall
    @CADENCES
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
