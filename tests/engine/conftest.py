"""Builders shared by tests: configurations by dotted keys, synthetic workloads, and whole runs on either clock."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fluxctl.policies  # noqa: F401 - registers every policy
from fluxctl.config.model import Config
from fluxctl.data import worlds as world_module
from fluxctl.data.partition import Shards
from fluxctl.engine import run as run_module
from fluxctl.engine.channel import Mailbox
from fluxctl.engine.clock import Clock
from fluxctl.engine.ledger import Flight, Ledger
from fluxctl.engine.messages import StepReport, Train, Work
from fluxctl.engine.payload import Payload, decode, encode
from fluxctl.engine.run import Engine, build_engine
from fluxctl.engine.trainer import StepOutput
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.engine.workload import ClientWorkload
from fluxctl.learn.evaluate import Evaluation
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.local_step import Measurement, StepRequest, StepResult
from fluxctl.policies.selectors.base import Selection, SelectionView
from fluxctl.policies.stopping import StopDecision
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.reader import read_events
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import NEVER, NS_PER_S, Availability, ClientId, Ns, PayloadKind
from fluxctl.world.availability import Exhaustion, RecordedTrace, Timeline, Trace
from fluxctl.world.seeds import stream

Event = dict[str, Any]
NUM_PARAMS = 12
HANG_S = 60.0  # wall seconds after which a run is asked to end, so that a broken engine fails and does not hang


def make_config(**overrides: object) -> Config:
    """A small run; keys are dotted paths with ``__`` for the dot, values replace the defaults below."""
    defaults: dict[str, object] = {
        "clients__num_clients": 12,
        "aggregation__goal": 3,
        "aggregation__concurrency": 3,
        "delays__model": "uniform",
        "delays__low_s": 1.0,
        "delays__high_s": 10.0,
        "gate__stopping_policy": "fixed_cap",
        "gate__max_iterations_per_bin": 2,
        "limits__max_bins": 6,
        "limits__max_runtime_s": 1e6,
        "limits__divergence_guard": False,
        "engine__num_workers": 1,
    }
    data = Config().model_dump(mode="json")
    for path, value in {**defaults, **overrides}.items():
        *parents, leaf = path.split("__")
        section = data
        for parent in parents:
            section = section[parent]
        assert leaf in section, path
        section[leaf] = value
    return Config.model_validate(data)


def make_shards(num_clients: int, num_bins: int = 4, batch_size: int = 2) -> Shards:
    """Every client owns ``num_bins`` full bins."""
    size = num_bins * batch_size
    owned = tuple(np.arange(client * size, (client + 1) * size, dtype=np.int64) for client in range(num_clients))
    return Shards(owned, batch_size, np.full((num_clients, 1), size, dtype=np.int64))


def make_trace(
    changes: Mapping[ClientId, list[tuple[float, str]]], num_clients: int, end_s: float = 1e7, exhaustion: str = "hold"
) -> RecordedTrace:
    """Timelines of (second, state) changes; whoever is not named is always available. States: T, E, or - for gone."""
    names = {"T": Availability.AVL_TRAIN, "E": Availability.AVL_EVAL, "-": Availability.UN_AVL}
    return RecordedTrace.of(
        {
            client: Timeline.of(
                [(round(t * NS_PER_S), names[state]) for t, state in changes.get(client, [(0, "T")])],
                round(end_s * NS_PER_S),
                Exhaustion(exhaustion),
            )
            for client in range(num_clients)
        }
    )


class StubLearner:
    """A model of a few parameters: keyed random gradients, and an accuracy that is a function of the weights.

    Args:
        extra_draw_of: A client whose every step draws additional numbers, as if it took one more iteration.
    """

    layout = ParamLayout.of([("a.weight", (2, 4)), ("b.bias", (4,))])

    def __init__(self, extra_draw_of: ClientId | None = None) -> None:
        self.extra_draw_of = extra_draw_of
        self.evaluation_threads: set[int] = set()

    def initial_params(self, seed: int) -> torch.Tensor:
        return torch.from_numpy(stream(seed, "init").normals(NUM_PARAMS).copy())

    def step(self, request: StepRequest) -> StepResult:
        gradient = torch.from_numpy(request.stream.normals(NUM_PARAMS)) + 0.1 * request.params
        return StepResult(gradient, 1.0, 1.0 + len(request.samples), (1.0,), 0, 2, 1, len(request.samples))

    def measure(self, request: StepRequest) -> Measurement:
        return Measurement(1.0, 1.0 + len(request.samples), 1, len(request.samples))

    def evaluate(self, params: torch.Tensor) -> Evaluation:
        self.evaluation_threads.add(threading.get_ident())
        accuracy = float(torch.sigmoid(params.mean()))
        return Evaluation(accuracy, 1.0 - accuracy, 0.0, (1, 1), (1, 1), 2)


@dataclass
class NullWorkload:
    """What clients compute when the engine is what is tested: keyed random gradients, and a record of who called.

    Args:
        before: Called at the start of each step; may raise.
        num_directions: Reported directions; a step is twice as many passes.
    """

    before: Callable[[Train], None] = lambda task: None
    num_directions: int = 1
    steps: list[Train] = field(default_factory=list)
    received: list[Train] = field(default_factory=list)
    step_threads: set[int] = field(default_factory=set)
    receive_threads: set[int] = field(default_factory=set)

    def receive(self, task: Train) -> None:
        self.received.append(task)
        self.receive_threads.add(threading.get_ident())

    def step(self, task: Train) -> StepOutput:
        self.steps.append(task)
        self.step_threads.add(threading.get_ident())
        self.before(task)
        source = stream(
            7, "tangent", client=task.client, version=task.version, iteration=task.iteration, attempt=task.attempt
        )
        is_update = task.work is Work.TRAIN
        payload = Payload(
            PayloadKind.GRADIENT if is_update else PayloadKind.MEASUREMENT,
            task.version,
            task.bin,
            task.iteration,
            (source.normals(NUM_PARAMS),) if is_update else (),
            loss=1.0,
            stat_utility=1.0 + task.client,
            num_samples=2,
        )
        phases = dict.fromkeys(
            ("fetch_s", "pre_train_s", "to_device_s", "train_s", "from_device_s", "post_train_s"), 0.0
        )
        if not is_update:
            return StepOutput(encode(payload), StepReport(1, 0, 0.0))
        return StepOutput(encode(payload), StepReport(2 * self.num_directions, self.num_directions, 0.5, phases))


class AuditedLedger(Ledger):
    """A ledger that checks after every transition what must always hold, and remembers every dispatch.

    Args:
        concurrency: C at this moment; slots in use grow by dispatches only, and never beyond it.
        logical_now: Logical time.

    Attributes:
        intervals: Client, dispatch and closing time of each dispatch that held a slot, in order of closing.
        given_up: Client, time of abandonment and time from which it was idle again, of each one that became so.
        withheld: Client and time of each update that was ready and could not be delivered.
    """

    def __init__(self, concurrency: Callable[[], int], logical_now: Callable[[], Ns]) -> None:
        super().__init__()
        self._concurrency = concurrency
        self._logical_now = logical_now
        self.intervals: list[tuple[ClientId, Ns, Ns, str]] = []
        self.given_up: list[tuple[ClientId, Ns, Ns]] = []
        self.withheld: list[tuple[ClientId, Ns]] = []
        self._abandoned_ns: dict[ClientId, Ns] = {}
        self.num_dispatches = 0
        self.num_closed = 0
        self.most_in_flight = 0

    def _audit(self) -> None:
        outstanding = self.num_dispatches - self.num_closed
        assert self.num_in_flight + self.num_evaluating == outstanding
        assert self.num_in_flight == len(self.in_flight())
        self.most_in_flight = max(self.most_in_flight, self.num_in_flight)

    def dispatch(self, client: ClientId, *, work: Work = Work.TRAIN, **times: Ns) -> Flight:
        assert client not in self._abandoned_ns
        flight = super().dispatch(client, work=work, **times)
        self.num_dispatches += 1
        assert self.num_in_flight <= self._concurrency()
        self._audit()
        return flight

    def _closed(self, flight: Flight, how: str) -> Flight:
        self.num_closed += 1
        self.intervals.append((flight.client, flight.dispatch_ns, self._logical_now(), how))
        self._audit()
        return flight

    def commit(self, client: ClientId) -> Flight:
        return self._closed(super().commit(client), "commit")

    def reject(self, client: ClientId) -> Flight:
        return self._closed(super().reject(client), "reject")

    def finish(self, client: ClientId) -> Flight:
        return self._closed(super().finish(client), "finish")

    def cancel(self, client: ClientId) -> Flight:
        return self._closed(super().cancel(client), "cancel")

    def abandon(self, client: ClientId, *, lost: bool) -> Flight:
        self._abandoned_ns[client] = self._logical_now()
        return self._closed(super().abandon(client, lost=lost), "abandon")

    def resolve(self, client: ClientId) -> Flight:
        flight = super().resolve(client)
        # A late update is taken from the ledger just before logical time moves to its due time.
        idle_ns = max(self._logical_now(), flight.due_ns if flight.due_ns < NEVER else 0)
        self.given_up.append((client, self._abandoned_ns.pop(client), idle_ns))
        self._audit()
        return flight

    def withhold(self, client: ClientId) -> Flight:
        self.withheld.append((client, self._logical_now()))
        flight = super().withhold(client)
        self._audit()
        return flight

    def deliver(self, client: ClientId, due_ns: Ns) -> Flight:
        flight = super().deliver(client, due_ns)
        self._audit()
        return flight


class LateClock(VirtualClock):
    """A virtual clock on which updates reach the aggregator late, as they may on the wall, without real waiting.

    Args:
        lateness: Nanoseconds that the ``n``-th delivery of a trainer thread comes after its due time.
    """

    def __init__(self, lateness: Callable[[str, int], Ns]) -> None:
        super().__init__()
        self._lateness = lateness
        self._counts: dict[str, int] = {}

    def wait(self, mailbox: Mailbox[Any], deadline: Ns | None = None, *, at_least: int = 1) -> bool:
        if mailbox.name.startswith("trainer-") and deadline is not None and deadline > self.now():
            count = self._counts[mailbox.name] = self._counts.get(mailbox.name, -1) + 1
            deadline += self._lateness(mailbox.name, count)
        return super().wait(mailbox, deadline, at_least=at_least)


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


@dataclass
class Run:
    """A run that has ended."""

    engine: Engine
    stop: StopDecision | None
    error: BaseException | None
    folder: Path
    ledger: AuditedLedger
    hash: str
    events: list[Event]
    notes: list[Event]

    def of(self, event: str) -> list[Event]:
        return [e for e in self.events if e["event"] == event]

    @property
    def commits(self) -> list[tuple[int, list[int], str]]:
        """Engine time in nanoseconds, contributors in commit order and model checksum of each cycle."""
        return [(e["t_ns"], e["contributing_trainers"], e["model_checksum"]) for e in self.of("agg_round")]

    @property
    def seconds(self) -> list[tuple[float, list[int]]]:
        """Time in engine seconds and contributors of each cycle."""
        return [(t / NS_PER_S, clients) for t, clients, _ in self.commits]

    def of_client(self, event: str, client: ClientId) -> list[Event]:
        return [e for e in self.of(event) if e["client"] == client]

    def dispatches(self, client: ClientId) -> list[float]:
        """Engine seconds at which a client was asked."""
        return [e["dispatch_ns"] / NS_PER_S for e in self.of_client("dispatch", client)]


RunEngine = Callable[..., Run]


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def config_of() -> Callable[..., Config]:
    """See :func:`make_config`."""
    return make_config


@pytest.fixture
def shards_of() -> Callable[..., Shards]:
    """See :func:`make_shards`."""
    return make_shards


@pytest.fixture
def trace_of() -> Callable[..., RecordedTrace]:
    """See :func:`make_trace`."""
    return make_trace


@pytest.fixture
def null_workload() -> type[NullWorkload]:
    return NullWorkload


@pytest.fixture
def stub_learner() -> type[StubLearner]:
    return StubLearner


@pytest.fixture
def lowest_first() -> type[LowestFirst]:
    return LowestFirst


@pytest.fixture
def late_clock() -> type[LateClock]:
    return LateClock


@pytest.fixture
def run_engine(tmp_path_factory: pytest.TempPathFactory) -> RunEngine:
    """Run a configuration to its end with an audited ledger; errors of the run are kept, not raised."""

    def run(
        config: Config,
        *,
        workload: Any = None,
        learner: Any = None,
        shards: Shards | None = None,
        trace: Trace | None = None,
        clock: Clock | None = None,
        num_workers: int | None = None,
        selector: Any = None,
        before_run: Callable[[Engine], None] = lambda engine: None,
        on_tick: Callable[[Engine], None] = lambda engine: None,
    ) -> Run:
        folder = tmp_path_factory.mktemp("run")
        shards = shards or make_shards(config.clients.num_clients)
        learner = learner or StubLearner()
        work = (
            ClientWorkload(learner, shards, config.seed, is_timed=config.telemetry.step_timing)
            if workload == "learner"
            else workload or NullWorkload()
        )
        built: list[Engine] = []
        ledger = AuditedLedger(
            lambda: built[0].aggregator._dispatcher.concurrency, lambda: built[0].aggregator.logical_now
        )
        stop, error = None, None
        with pytest.MonkeyPatch.context() as patch, EventWriter(folder) as writer:
            patch.setattr(run_module, "Ledger", lambda: ledger)
            if trace is not None:  # in place of the one that the configuration names
                assert config.availability.trace != "syn_0"
                patch.setattr(world_module, "load_trace", lambda *_: trace)
            if clock is not None:
                patch.setattr(run_module, "_build_clock", lambda _: clock)
            if num_workers is not None:
                patch.setattr(run_module, "_num_workers", lambda _: num_workers)
            writer.header({"mode": config.mode.value}, seed=config.seed)
            engine = build_engine(config, learner, shards, writer, workload=work)
            built.append(engine)
            if selector is not None:
                engine.aggregator._dispatcher.cohorts._selector = selector
            before_run(engine)
            give_up_s = time.monotonic() + HANG_S

            def tick() -> None:
                on_tick(engine)
                if time.monotonic() > give_up_s:
                    engine.request_stop("the test's run did not end")

            try:
                stop = engine.run(tick)
            except Exception as caught:
                error = caught
        events_file, notes_file = folder / "events.jsonl", folder / "wall.jsonl"
        notes = [json.loads(line) for line in notes_file.read_text().splitlines()] if notes_file.exists() else []
        hash_, events = canonical_hash(events_file), [dict(event) for event in read_events(events_file)]
        return Run(engine, stop, error, folder, ledger, hash_, events, notes)

    return run


def kind_of(task: Train) -> PayloadKind:
    """What a task's message carries."""
    return decode(task.payload).kind


@pytest.fixture
def payload_kind() -> Callable[[Train], PayloadKind]:
    return kind_of


def write_run_folder(folder: Path, config: Config, extra: Mapping[str, object] | None = None) -> Path:
    """A run directory as ``launch`` leaves it for the engine."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {**config.model_dump(mode="json"), **(extra or {})}
    (folder / "config.yaml").write_text(json.dumps(data), encoding="utf-8")
    return folder


@pytest.fixture
def run_folder() -> Callable[..., Path]:
    """See :func:`write_run_folder`."""
    return write_run_folder
