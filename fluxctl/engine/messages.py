"""What aggregator and trainers say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from fluxctl.engine.timing import FunctionTime
from fluxctl.types import ClientId, Ns


class Work(StrEnum):
    """What a client is asked for."""

    TRAIN = "train"  # an update
    EVALUATE = "eval"  # loss and utility of the weights that it was sent, and no update


@dataclass(frozen=True, slots=True)
class Train:
    """Aggregator to trainer: work on one mini-batch.

    Args:
        client: Whose data.
        task_id: Unique number of this dispatch.
        attempt: Earlier dispatches of this client at the same version and iteration.
        bin: Bin to train.
        round: Pass over all bins that the bin belongs to.
        iteration: Iteration within the bin.
        version: Model version.
        dispatch_ns: Logical time of the dispatch.
        done_ns: When the update is ready, if compute takes no longer than modelled; NEVER if its work is lost.
        earliest_due_ns: When it can be delivered: then, or when the client can be reached again.
        duration_ns: Modelled duration D.
        payload: Encoded weights, or a keep-going message.
        work: Whether to train on it, or only to measure.
    """

    client: ClientId
    task_id: int
    attempt: int
    bin: int
    round: int
    iteration: int
    version: int
    dispatch_ns: Ns
    done_ns: Ns
    earliest_due_ns: Ns
    duration_ns: Ns
    payload: bytes
    work: Work = Work.TRAIN


@dataclass(frozen=True, slots=True)
class Cancel:
    """Aggregator to trainer: stop working on ``task_id``."""

    task_id: int


@dataclass(frozen=True, slots=True)
class StepFailed:
    """Compute to trainer: the step of ``task_id`` raised; its error is in the job."""

    task_id: int


ToTrainer: TypeAlias = Train | Cancel | StepFailed


@dataclass(frozen=True, slots=True)
class Register:
    """Trainer to aggregator: ready for work."""

    trainer: int


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a trainer measured and counted in one step.

    Args:
        forward_passes: Forward passes of the step.
        num_directions: Directions evaluated.
        jvp: Directional derivative along the chosen direction.
        phases_s: Processor seconds of each phase.
        compute_wall_s: Wall seconds of the step.
        times: Wall seconds of its functions, if they are timed.
    """

    forward_passes: int
    num_directions: int
    jvp: float
    phases_s: dict[str, float] = field(default_factory=dict)
    compute_wall_s: float = 0.0
    times: tuple[FunctionTime, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Trainer to aggregator: an encoded gradient or measurement, visible from ``due_ns`` on.

    Args:
        trainer: Thread that worked on it; free again.
        task: What was asked.
        recv_ns: Engine clock when the task was received: the time of its dispatch on a virtual clock, later on a wall
            clock.
        due_ns: Logical due time.
        sent_ns: Engine clock when it was sent: the due time on a virtual clock, later on a wall clock.
        payload: What the client sends.
        report: Counts and timings.
    """

    trainer: int
    task: Train
    recv_ns: Ns
    due_ns: Ns
    sent_ns: Ns
    payload: bytes
    report: StepReport


@dataclass(frozen=True, slots=True)
class TrainerFailure:
    """Trainer to aggregator: the step raised.

    Args:
        trainer: Thread that worked on it; free again.
        task: What was asked.
        error: Type and message.
        place: ``file:line`` that raised.
        traceback: For the log.
    """

    trainer: int
    task: Train
    error: str
    place: str
    traceback: str


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Somebody outside asks the run to end."""

    reason: str


Arrival: TypeAlias = Update | TrainerFailure
ToAggregator: TypeAlias = Register | Arrival | StopRequest
