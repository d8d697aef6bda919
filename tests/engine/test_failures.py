"""Steps that fail and updates that are too late: who ends the run, who is given up, and who is not missed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from engine_worlds import CADENCES, REAL, ConfigOf, RunEngine

from fluxctl.config.model import Config
from fluxctl.engine.collector import TrainerFailedError
from fluxctl.engine.messages import Train
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.errors import ExitCode
from fluxctl.types import NS_PER_S, PayloadKind, Verdict
from fluxctl.world.delays import build_delays

WAIT_S = 30.0  # only ever reached by a test that fails


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
    @CADENCES
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
    @CADENCES
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


@pytest.mark.wall
@pytest.mark.parametrize("mode", [{}, REAL], ids=["sim", "real"])
class TestWhatNobodyWants:
    """A step whose result nobody asks for does not end a run by failing: a simulation may not even compute it."""

    SLOWEST: ClassVar[dict[str, Any]] = {"clients__num_clients": 4, "aggregation__concurrency": 4}

    def in_order(self, config: Config) -> list[int]:
        return sorted(range(4), key=build_delays(config.delays, config.seed).duration_ns)

    def failing(self, null_workload: Any, client: int) -> Any:
        def fail(task: Train) -> None:
            if task.client == client:
                raise OSError("disk")

        return null_workload(before=fail)

    @pytest.mark.feature("A31", "A1")
    def test_surplus_that_fails_is_cancelled_like_any_other(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        config = config_of(**self.SLOWEST, **mode)
        healthy = run_engine(config_of(**self.SLOWEST))
        run = run_engine(config, workload=self.failing(null_workload, self.in_order(config)[-1]))
        assert (run.error, run.stop.verdict) == (None, Verdict.COMPLETED)
        assert run.hash == healthy.hash
        assert run.of("agg_round")[-1]["surplus_total"] > 0

    @pytest.mark.feature("A31", "A1")
    def test_a_run_that_ends_before_it_would_be_due_has_ended(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        config = config_of(
            **self.SLOWEST, **mode, aggregation__style="async", aggregation__staleness__name="accept",
            aggregation__goal=1, gate__enabled=False, limits__max_bins=1,
        )  # fmt: skip
        run = run_engine(config, workload=self.failing(null_workload, self.in_order(config)[1]))
        assert (run.error, run.stop.verdict) == (None, Verdict.COMPLETED)
        assert len(run.commits) == 1

    @pytest.mark.feature("A31", "A1")
    @pytest.mark.parametrize("rank", [0, 1, 2])
    def test_one_that_is_wanted_ends_the_run_with_its_client(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any], rank: int
    ) -> None:
        """D is hours; on the wall it is known at once, since what is surplus is known too."""
        config = config_of(**{**self.SLOWEST, **mode, "delays__low_s": 9e3, "delays__high_s": 9e4})
        client = self.in_order(config)[rank]
        started = time.monotonic()
        run = run_engine(config, workload=self.failing(null_workload, client))
        assert isinstance(run.error, TrainerFailedError)
        assert f"client {client} raised OSError: disk" in run.error.message
        assert [note["client"] for note in run.notes if note["event"] == "trainer_failed"] == [client]
        assert time.monotonic() - started < 10.0

    @pytest.mark.feature("A31", "A1")
    def test_what_is_due_after_the_budget_is_never_asked_for(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        config = config_of(**self.SLOWEST, **mode, gate__enabled=False, limits__max_runtime_s=0.5)
        run = run_engine(config, workload=self.failing(null_workload, self.in_order(config)[0]))
        assert (run.error, run.stop.verdict) == (None, Verdict.NO_ROUNDS)

    @pytest.mark.feature("A31", "A1")
    def test_what_follows_from_a_commit_is_certain_only_after_it(
        self, run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, mode: dict[str, Any]
    ) -> None:
        """K = 1: the second client is wanted when the first cycle has closed and the run goes on."""
        config = config_of(
            **self.SLOWEST, **mode, aggregation__style="async", aggregation__staleness__name="accept",
            aggregation__goal=1, gate__enabled=False, limits__max_bins=3,
        )  # fmt: skip
        run = run_engine(config, workload=self.failing(null_workload, self.in_order(config)[1]))
        assert isinstance(run.error, TrainerFailedError)
        assert len(run.commits) >= 1
