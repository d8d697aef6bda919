"""What gate checks look at: a configuration, and what was found out about its data, world, model and machine.

Checks are pure; :mod:`fluxctl.gate.host` finds the facts out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluxctl.config.fingerprint import Fingerprints
from fluxctl.config.model import Config
from fluxctl.runs.devices import Placement, place
from fluxctl.types import Verdict


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that kept a fact from being found.

    Attributes:
        path: The value that is to blame, as a dotted path.
        message: What is wrong.
        hint: What to do.
        is_missing: Whether only files are not installed here.
    """

    path: str
    message: str
    hint: str | None = None
    is_missing: bool = False


@dataclass(frozen=True)
class DataFacts:
    """The partition of a run, as loaded.

    Attributes:
        num_texts: Training texts of all clients.
        quantities: Texts of each client, shape ``(num_clients,)``.
        measured_alpha: Concentration that the label mixes of the clients look like; None where it means nothing.
    """

    num_texts: int
    quantities: npt.NDArray[np.int64]
    measured_alpha: float | None

    @property
    def empty_clients(self) -> tuple[int, ...]:
        """Clients without a text, ascending."""
        return tuple(np.flatnonzero(self.quantities == 0).tolist())


@dataclass(frozen=True)
class WorldFacts:
    """Clients over the budget of a run, simulated without training.

    Attributes:
        task_s: Modelled time from dispatch to due of each client, legs included, ascending, shape ``(num_clients,)``.
        first_delivery_s: When each client can have delivered a first update, ascending; inf if never.
        reachable: Clients that can work and deliver at each of the times looked at, shape ``(num_times,)``.
        is_always: Whether everybody can always be reached.
    """

    task_s: npt.NDArray[np.float64]
    first_delivery_s: npt.NDArray[np.float64]
    reachable: npt.NDArray[np.int64]
    is_always: bool


@dataclass(frozen=True, slots=True)
class CourseFacts:
    """A run under its trace, walked through without training.

    Attributes:
        verdict: How it would end for want of clients, bins or time.
        reason: Why.
        engine_s: When.
        num_cycles: Cycles that close until then; an estimate for a long run.
        reachable_mean: Clients that can be reached, on average over the time.
        share_below_goal: Share of the time with fewer than the goal.
        largest_goal: If no cycle closes: the largest goal with which one does; 0 if none.
    """

    verdict: Verdict
    reason: str
    engine_s: float
    num_cycles: float
    reachable_mean: float
    share_below_goal: float
    largest_goal: int = 0


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Accelerators, if any were asked for.

    Attributes:
        num_asked: How many; 0 = the CPU.
        visible: Names of those that this host lets us use.
    """

    num_asked: int
    visible: tuple[str, ...]

    def placement(self, num_trainers: int) -> Placement:
        """Where trainers go, on the devices that were asked for."""
        return place(num_trainers, self.visible[: self.num_asked])


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The language model of a run.

    Attributes:
        family: What its ``config.json`` calls it.
        num_blocks: Transformer blocks; None if unknown.
        max_positions: Longest text in tokens; None if unknown.
    """

    family: str
    num_blocks: int | None = None
    max_positions: int | None = None


@dataclass(frozen=True)
class Case:
    """One run before its start.

    Attributes:
        config: What it will do, read back from the text that the run will read.
        prints: Its fingerprints.
        origins: Dotted path of each value -> where it comes from.
        overridden: Paths whose value was set for this launch, by a flag, ``--set``, the environment or ``--file``.
        num_cores: Cores that this process may use.
        model: The model; None if it could not be looked at.
        data: The partition; None if the data could not be looked at.
        world: The clients; None if there are too many to look at, or their trace cannot be read.
        troubles: Why facts are missing.
        short_trace: That a recorded trace ends before the run may; None if it does not.
        course: The run under its trace; None if clients are always there, or it was not walked through.
        devices: Accelerators; None if none were asked for.
    """

    config: Config
    prints: Fingerprints
    origins: Mapping[str, str]
    overridden: frozenset[str]
    num_cores: int
    model: ModelFacts | None = None
    data: DataFacts | None = None
    world: WorldFacts | None = None
    troubles: tuple[Trouble, ...] = ()
    short_trace: Trouble | None = None
    course: CourseFacts | None = None
    devices: DeviceFacts | None = None

    def is_default(self, paths: tuple[str, ...]) -> bool:
        """Whether nobody has set any of the values."""
        return all(self.origins.get(path, "default") == "default" for path in paths)


def measured_alpha(class_counts: npt.NDArray[np.int64]) -> float | None:
    """The Dirichlet concentration that label mixes look like, by the method of moments.

    For p ~ Dir(alpha x prior), the variances of the label shares over clients add up to
    ``sum(m (1 - m)) / (alpha + 1)``.

    Args:
        class_counts: Texts of each label, shape ``(num_clients, num_classes)``.

    Returns:
        None for fewer than two clients with texts, or if all of them have the same mix.
    """
    totals = class_counts.sum(axis=1)
    owned = class_counts[totals > 0]
    if len(owned) < 2:
        return None
    shares = owned / owned.sum(axis=1, keepdims=True)
    prior = owned.sum(axis=0) / owned.sum()
    spread = float(np.mean((shares - prior) ** 2, axis=0).sum())
    return float((prior * (1 - prior)).sum()) / spread - 1 if spread > 0 else None


def task_passes(config: Config) -> int:
    """Forward passes that a task is charged for; the learner's numbers, told without loading it."""
    step, texts = config.step, config.data.batch_size
    if step.estimator == "backprop":
        return _GRADIENT_PASSES
    if step.estimator == "local_sgd":
        if step.local_scope == "shard":
            texts = -(-config.data.train_per_class * len(config.data.classes) // config.clients.num_clients)
        return _GRADIENT_PASSES * step.local_epochs * -(-texts // step.local_batch_size)
    passes = step.num_directions + 1 if step.estimator == "forward_difference" else 2 * step.num_directions
    if not step.fast_path:
        passes += _LOG_PASSES + (2 if step.perturbation == "max_jvp" else 0)
    return passes


_GRADIENT_PASSES = 3
_LOG_PASSES = 3
