"""What clients compute: decode the message, take a forward-gradient step on the bin's mini-batch, encode the update.

Runs in compute threads. The only state is what a client would hold on its device: the last weights that it received,
and the last aggregate if guided directions need it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from fluxctl import wall
from fluxctl.config.model import MessagesConfig, StepConfig
from fluxctl.data.partition import Shards
from fluxctl.engine.held import HeldModels
from fluxctl.engine.messages import StepReport, Train, Work
from fluxctl.engine.payload import Payload, Vector, encode
from fluxctl.engine.seed_scalar import SeedScalar, checksum_of
from fluxctl.engine.timing import Timer, timer
from fluxctl.engine.trainer import StepOutput
from fluxctl.learn.learner import Measurement, StepRequest, StepResult
from fluxctl.learn.rebuild import description_of
from fluxctl.types import NS_PER_S, ClientId, PayloadKind
from fluxctl.world.seeds import Stream, stream


class StepLearner(Protocol):
    """The part of a learner that clients use."""

    def step(self, request: StepRequest) -> StepResult:
        """Estimate the gradient of one mini-batch."""
        ...

    def measure(self, request: StepRequest) -> Measurement:
        """Loss and utility of one mini-batch."""
        ...


class InjectedFaultError(RuntimeError):
    """Raised on request of ``engine.fault_client``, to see what the engine makes of it."""


class ClientWorkload:
    """Steps of all clients.

    Args:
        learner: Model and estimator.
        shards: Which samples belong to which client.
        seed: The run's seed.
        fault_client: Client that raises instead of training, for testing; None = nobody.
        step: What a task is.
        messages: How updates travel.
        is_timed: Whether functions are timed.
    """

    def __init__(
        self,
        learner: StepLearner,
        shards: Shards,
        seed: int,
        fault_client: int | None = None,
        *,
        step: StepConfig = StepConfig(),  # noqa: B008 - frozen
        messages: MessagesConfig = MessagesConfig(),  # noqa: B008
        is_timed: bool = False,
    ) -> None:
        self._learner = learner
        self._shards = shards
        self._step = step
        self._describes = messages.update == "seed_scalar"
        self._seed = seed
        self._fault_client = fault_client
        self._is_timed = is_timed
        self._models = HeldModels()

    def receive(self, task: Train) -> None:
        """Keep the weights that came with a task; a client has them even if its step is cancelled before it starts."""
        self._models.receive(task)

    def step(self, task: Train) -> StepOutput:
        """Do one local step, or measure what one would begin with.

        Raises:
            InvariantError: If the client is told to keep going with weights that it does not have.
        """
        if task.client == self._fault_client:
            raise InjectedFaultError(f"client {task.client} was told to fail (engine.fault_client)")
        work = self._train if task.work is Work.TRAIN else self._measure
        timed = timer(is_on=self._is_timed)
        with timed("client_step"):
            output = work(task, timed)
        return replace(output, report=replace(output.report, times=timed.times)) if self._is_timed else output

    def _measure(self, task: Train, timed: Timer) -> StepOutput:
        wall_start = wall.monotonic_ns()
        samples = task_samples(self._step, self._shards, task.client, task.bin)
        unused = stream(self._seed, "evaluation", client=task.client)  # nothing is random in a forward pass
        request = StepRequest(params=self._models.of(task).params, samples=samples, stream=unused)
        with timed("measure"):
            found = self._learner.measure(request)
        data = encode(
            Payload(
                PayloadKind.MEASUREMENT,
                *(task.version, task.bin, task.iteration),
                loss=found.loss,
                stat_utility=found.stat_utility,
                num_samples=found.num_samples,
            )
        )
        compute_wall_s = (wall.monotonic_ns() - wall_start) / NS_PER_S
        return StepOutput(data, StepReport(found.forward_passes, 0, 0.0, compute_wall_s=compute_wall_s))

    def _train(self, task: Train, timed: Timer) -> StepOutput:
        wall_start, cpu_start = wall.monotonic_ns(), wall.thread_cpu_ns()
        with timed("held_weights"):
            model = self._models.of(task)
        cpu_fetched = wall.thread_cpu_ns()
        samples = task_samples(self._step, self._shards, task.client, task.bin)
        keyed = stream(
            self._seed,
            "tangent",
            client=task.client,
            version=task.version,
            iteration=task.iteration,
            attempt=task.attempt,
        )
        cpu_prepared = wall.thread_cpu_ns()
        request = StepRequest(params=model.params, samples=samples, stream=keyed, guide=model.guide)
        with timed("local_step"):
            result = self._learner.step(request)
        cpu_trained = wall.thread_cpu_ns()
        with timed("encode_update"):
            data = self._encode(task, keyed, result)
        cpu_encoded = wall.thread_cpu_ns()
        report = StepReport(
            forward_passes=result.forward_passes,
            num_directions=result.num_directions,
            jvp=result.jvps[result.winner],
            phases_s={
                "fetch_s": (cpu_fetched - cpu_start) / NS_PER_S,
                "pre_train_s": (cpu_prepared - cpu_fetched) / NS_PER_S,
                "to_device_s": 0.0,  # compute is on the host that holds the data
                "train_s": (cpu_trained - cpu_prepared) / NS_PER_S,
                "from_device_s": 0.0,
                "post_train_s": (cpu_encoded - cpu_trained) / NS_PER_S,
            },
            compute_wall_s=(wall.monotonic_ns() - wall_start) / NS_PER_S,
        )
        return StepOutput(data, report)

    def _encode(self, task: Train, keyed: Stream, result: StepResult) -> bytes:
        gradient: Vector = result.gradient.numpy()
        scalars = (result.loss, result.stat_utility, result.num_samples)
        stamps = (task.version, task.bin, task.iteration)
        if not self._describes:
            return encode(Payload(PayloadKind.GRADIENT, *stamps, (gradient,), *scalars))
        described = SeedScalar(keyed.key, *description_of(result, self._step), checksum_of(gradient))
        return encode(Payload(PayloadKind.SEED_SCALAR, *stamps, (), *scalars, described.pack()))


def task_samples(step: StepConfig, shards: Shards, client: ClientId, bin_index: int) -> tuple[int, ...]:
    """Texts of a client's task: the bin's mini-batch, or its whole shard."""
    if step.estimator == "local_sgd" and step.local_scope == "shard":
        return tuple(shards.clients[client].tolist())
    return shards.bin_samples(client, bin_index)
