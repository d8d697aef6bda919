"""One run: builds the parts from a configuration, starts the threads, joins them, and says why the run ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import torch
from safetensors.torch import save_file

from fluxctl.config.model import Config, TrainerErrorPolicy
from fluxctl.data.partition import Shards
from fluxctl.data.worlds import build_world
from fluxctl.engine.agenda import Agenda
from fluxctl.engine.aggregator import Aggregator
from fluxctl.engine.beliefs import Beliefs
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock, Rank
from fluxctl.engine.cohort import CohortSelector
from fluxctl.engine.collector import Collector
from fluxctl.engine.commit import BinTrainer, ServerLearner
from fluxctl.engine.compute import LocalExecutor
from fluxctl.engine.control import GoalControl
from fluxctl.engine.dispatcher import Dispatcher, WorkModel
from fluxctl.engine.examiner import Examiner
from fluxctl.engine.featurise import num_cores
from fluxctl.engine.intake import Intake
from fluxctl.engine.ledger import Ledger
from fluxctl.engine.messages import StopRequest, ToAggregator, ToTrainer, Train, Work
from fluxctl.engine.opening import UpdateOpener
from fluxctl.engine.payload import reply_bytes
from fluxctl.engine.recorder import Recorder
from fluxctl.engine.roster import Roster
from fluxctl.engine.sending import WeightSender
from fluxctl.engine.trainer import Trainer, Workload
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.engine.wall_clock import WallClock
from fluxctl.engine.workload import ClientWorkload, StepLearner, task_samples
from fluxctl.engine.world_log import WorldLog
from fluxctl.errors import RunBrokeError
from fluxctl.learn.learner import passes_of_measurement, passes_of_task
from fluxctl.policies.rates.base import RATES
from fluxctl.policies.selectors.base import SELECTORS, EvaluatingSelector, ForecastReader
from fluxctl.policies.staleness.base import STALENESS
from fluxctl.policies.stopping import StopConditions, StopDecision, StopState
from fluxctl.telemetry.writer import EventSink
from fluxctl.types import ClientId, Mode, Ns, ns_from_s, s_from_ns
from fluxctl.world.flight import ClientWorld

SHORTEST_STEP_S: Final = 0.001  # shorter steps run in their trainers' threads, unless a number of workers is asked for


@dataclass
class Engine:
    """A run that is ready to start.

    Args:
        clock: The run's clock.
        aggregator: The aggregator's body.
        trainers: The trainers' bodies.
        inbox: The aggregator's mailbox.
        executor: Where steps run.
        recorder: Telemetry.
        bin_trainer: The server's side of learning.
    """

    clock: Clock
    aggregator: Aggregator
    trainers: list[Trainer]
    inbox: Mailbox[ToAggregator]
    executor: LocalExecutor
    recorder: Recorder
    bin_trainer: BinTrainer
    _asked: list[str] = field(default_factory=list)

    def run(self, on_tick: Callable[[], None] = lambda: None) -> StopDecision:
        """Run to the end.

        Args:
            on_tick: Called about five times a second of real time.

        Returns:
            Why the run ended.

        Raises:
            RunBrokeError: If a trainer failed, trainers did not register, or everybody waits for nothing.
        """
        self.clock.spawn(on_one_core(self.aggregator.run), "aggregator", rank=Rank.AGGREGATOR)
        for trainer in self.trainers:
            self.clock.spawn(on_one_core(trainer.run), f"trainer-{trainer.index}", key=trainer.index)
        with self.executor:
            self.clock.run(on_tick)
        left = self.clock.unfinished()
        if self.aggregator.stop is None:
            raise RunBrokeError(f"threads did not end within 5 s of the stop: {', '.join(left)}")
        if left:  # steps of lost clients; they change no result
            self.recorder.note("threads_left", {"threads": left})
        return self.aggregator.stop

    def request_stop(self, reason: str) -> None:
        """Ask for a clean end; from any thread, or a signal handler."""
        if not self._asked:
            self._asked.append(reason)
            self.aggregator.request_stop(reason)
            self.clock.nudge(self.inbox, StopRequest(reason))


def on_one_core(body: Callable[[], None]) -> Callable[[], None]:
    """Let a thread's torch operations use that thread only.

    Parallelism is over clients. The setting belongs to a thread, and without it the first operations of a new thread
    may be split over cores, which rounds differently.
    """

    def run() -> None:
        torch.set_num_threads(1)
        body()

    return run


class EngineLearner(ServerLearner, StepLearner, Protocol):
    """Model and data as the engine uses them; :class:`fluxctl.learn.learner.Learner` is one."""


def build_engine(
    config: Config,
    learner: EngineLearner,
    shards: Shards,
    writer: EventSink,
    *,
    workload: Workload | None = None,
    server: type[BinTrainer] = BinTrainer,
    clock: Clock | None = None,
    world: ClientWorld | None = None,
    start_ns: Ns = 0,
) -> Engine:
    """Put the parts of a run together.

    Args:
        config: What to run.
        learner: Model and data.
        shards: Which samples belong to which client.
        writer: Event stream, with its header written.
        workload: What clients compute; None = forward-gradient steps of ``learner``.
        server: The server's side of learning.
        clock: The clock; None = that of ``config.mode``.
        world: The modelled world; None = that of ``config``.
        start_ns: Logical time of the first selection; ``clock`` must be there already.
    """
    clock = clock or _build_clock(config)
    ledger, inbox = Ledger(), Mailbox[ToAggregator]("aggregator")
    is_free = config.engine.num_workers is not None or clock.waits_for_real
    executor = LocalExecutor(
        _num_workers(config),
        on_one_core(lambda: None),
        shortest_s=0.0 if is_free else SHORTEST_STEP_S,
        waiters_help=not clock.waits_for_real,
    )
    work = workload or ClientWorkload(
        learner,
        shards,
        config.seed,
        config.engine.fault_client,
        step=config.step,
        messages=config.messages,
        is_timed=config.telemetry.step_timing,
    )
    fails_fast = config.engine.on_trainer_error is TrainerErrorPolicy.FAIL

    world = world or build_world(config)
    recorder = Recorder(writer, config, world.trace.state, clock.factor)
    roster = Roster(ledger, world, config.clients.num_clients, set(shards.empty_clients))
    cohorts = _build_cohorts(config, roster, world)
    num_trainers = config.aggregation.concurrency + cohorts.num_evaluations(config.aggregation.goal)
    inboxes = [Mailbox[ToTrainer](f"trainer-{index}") for index in range(num_trainers)]
    due = _due_rule(config, world, clock.factor)

    def new_trainer(index: int, box: Mailbox[ToTrainer]) -> Trainer:
        return Trainer(index, clock, executor, work, box, inbox, due, fails_fast)

    def hire() -> int:
        index = len(inboxes)
        inboxes.append(Mailbox[ToTrainer](f"trainer-{index}"))
        clock.spawn(on_one_core(new_trainer(index, inboxes[index]).run), f"trainer-{index}", key=index)
        return index

    agenda, opener = Agenda(ledger), UpdateOpener(config, learner.layout.num_params)
    rate = RATES.build(config.aggregation.rate.name, config.aggregation.rate.params)
    bin_trainer = server(config, learner, rate)
    dispatcher = Dispatcher(
        clock=clock,
        ledger=ledger,
        agenda=agenda,
        cohorts=cohorts,
        works={
            Work.TRAIN: WorkModel(world, _passes_rule(config, shards), opener.num_bytes),
            Work.EVALUATE: WorkModel(world.for_evaluation(), _evaluation_passes_rule(config, shards), reply_bytes()),
        },
        inboxes=inboxes,
        hire=hire,
        concurrency=config.aggregation.concurrency,
        goal=config.aggregation.goal,
        stagger_ns=ns_from_s(config.aggregation.stagger_s) if config.aggregation.refill == "staggered" else 0,
        sender=WeightSender(config.messages.suppress_redundant_weights, config.messages.weights),
        deliver=work.receive,
        on_selection=recorder.cycles.selection,
        on_dispatch=recorder.clients.dispatch,
    )
    budget_ns = _budget_ns(config)
    intake = Intake(
        config=config,
        ledger=ledger,
        agenda=agenda,
        roster=roster,
        dispatcher=dispatcher,
        collector=_build_collector(config, clock, ledger, inbox, dispatcher, recorder),
        open_update=opener,
        staleness=STALENESS.build(config.aggregation.staleness.name, config.aggregation.staleness.params),
        recorder=recorder,
        world_log=WorldLog(
            world, config.clients.num_clients, budget_ns, config.availability.knowledge, recorder.world_event, start_ns
        ),
        budget_ns=budget_ns,
        now=start_ns,
    )
    conditions = StopConditions(config.limits, config.runtime_budget_s(), 1 / len(config.data.classes))
    aggregator = Aggregator(
        config=config,
        clock=clock,
        ledger=ledger,
        intake=intake,
        control=GoalControl(config, dispatcher, recorder),
        bin_trainer=bin_trainer,
        examiner=Examiner(bin_trainer, StopState(conditions), recorder),
        recorder=recorder,
        bins_per_round=max(1, shards.max_bins),
        num_trainers=num_trainers,
        evaluation_charge=_evaluation_charge(config, clock.factor),
    )
    trainers = [new_trainer(index, box) for index, box in enumerate(inboxes)]
    return Engine(clock, aggregator, trainers, inbox, executor, recorder, bin_trainer)


def _build_clock(config: Config) -> Clock:
    if config.mode is Mode.REAL:
        return WallClock(config.engine.wall_factor)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    # With one core there is nothing to choose. Concurrent runs spread by process id.
    return VirtualClock(cores[os.getpid() % len(cores)] if len(cores) > 1 else None)


def _num_workers(config: Config) -> int:
    asked = config.engine.num_workers
    return max(1, num_cores() - 1) if asked is None else asked


def _due_rule(config: Config, world: ClientWorld, factor: float) -> Callable[[Train, Ns], Ns]:
    """When an update can be delivered, given the wall nanoseconds that its compute took."""
    if config.engine.charge_compute == "modelled":
        return lambda task, _: task.earliest_due_ns

    worlds = {Work.TRAIN: world, Work.EVALUATE: world.for_evaluation()}

    def due(task: Train, compute_ns: Ns) -> Ns:
        return worlds[task.work].delivery_ns(
            task.client, max(task.done_ns, task.dispatch_ns + round(compute_ns * factor))
        )

    return due


def _evaluation_charge(config: Config, factor: float) -> Callable[[float], Ns]:
    """Engine time of an evaluation, given the wall seconds that it took."""
    engine = config.engine
    if engine.charge_evaluation == "measured":
        return lambda wall_s: ns_from_s(wall_s * factor)
    modelled_ns = ns_from_s(engine.evaluation_s) if engine.charge_evaluation == "modelled" else 0
    return lambda _: modelled_ns


def _budget_ns(config: Config) -> Ns:
    """The first nanosecond at which the stop rules see the budget used up, however it is rounded."""
    budget_s = config.runtime_budget_s()
    budget_ns = ns_from_s(budget_s)
    return budget_ns if s_from_ns(budget_ns) >= budget_s else budget_ns + 1


def _passes_rule(config: Config, shards: Shards) -> Callable[[ClientId, int], int]:
    """Forward passes of a client's task, known before it runs."""
    step = config.step
    if step.estimator != "local_sgd":
        constant = passes_of_task(step, config.data.batch_size)
        return lambda *_: constant
    return lambda client, bin_index: passes_of_task(step, len(task_samples(step, shards, client, bin_index)))


def _evaluation_passes_rule(config: Config, shards: Shards) -> Callable[[ClientId, int], int]:
    """Forward passes of a client that measures the texts of its task, and does not train on them."""
    step = config.step
    if step.estimator != "local_sgd":
        return lambda *_: 1
    return lambda client, bin_index: passes_of_measurement(step, len(task_samples(step, shards, client, bin_index)))


def _build_collector(
    config: Config,
    clock: Clock,
    ledger: Ledger,
    inbox: Mailbox[ToAggregator],
    dispatcher: Dispatcher,
    recorder: Recorder,
) -> Collector:
    slack_ns = ns_from_s(config.engine.reorder_slack_s or config.engine.abandon_after_s)
    return Collector(
        clock=clock,
        ledger=ledger,
        inbox=inbox,
        logical_order=config.engine.commit_order == "logical",
        slack_ns=slack_ns,
        register=dispatcher.register,
        release=dispatcher.release,
        overdue=lambda flight: recorder.overdue(flight, slack_ns),
        failed=recorder.failed,
        end_ns=_budget_ns(config),
        fails_fast=config.engine.on_trainer_error is TrainerErrorPolicy.FAIL,
    )


def _build_cohorts(config: Config, roster: Roster, world: ClientWorld) -> CohortSelector:
    num_clients = config.clients.num_clients
    selector = SELECTORS.build(config.selection.policy.name, config.selection.policy.params)
    forecasts = selector.reads if isinstance(selector, ForecastReader) else frozenset()
    measures = isinstance(selector, EvaluatingSelector) and selector.num_evaluations(num_clients) > 0
    return CohortSelector(
        selector,
        roster,
        Beliefs(num_clients, world, forecasts, measures=measures),
        seed=config.seed,
        num_clients=num_clients,
        keeps_cohort=config.aggregation.style == "sync" and config.selection.per == "bin",
    )


def save_weights(folder: Path, engine: Engine, layout_names: dict[str, tuple[int, int]]) -> None:
    """Write the final and the best trainable weights, as named flat tensors, to ``folder``."""
    folder.mkdir(exist_ok=True)
    for name, params in (("final", engine.bin_trainer.params), ("last_good", engine.bin_trainer.last_good_params)):
        tensors = {key: params[start:end].clone() for key, (start, end) in layout_names.items()}
        save_file(tensors, folder / f"{name}.safetensors")
