"""A run's model for the analyses that have to compute with it; torch is imported only when one asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fluxctl.commands._talk import Talk
from fluxctl.config.choices import choice_check
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.errors import ConfigError
from fluxctl.policies import REGISTRIES
from fluxctl.runs.layout import RunFolder

if TYPE_CHECKING:
    import numpy as np

    from fluxctl.engine.prepare import Task


@dataclass(frozen=True)
class RunModel:
    """Model, features and shards of a run, rebuilt from its configuration as its engine built them.

    Args:
        folder: The run.
        talk: Told what takes long.
    """

    folder: RunFolder
    talk: Talk

    @cached_property
    def config(self) -> Config:
        """What the run was asked to do."""
        return read_config(self.folder.config, check=choice_check(REGISTRIES)).config

    @cached_property
    def task(self) -> Task:
        """What the run trains on.

        Raises:
            AssetError: If model or texts are not installed.
        """
        from fluxctl.engine.prepare import prepare_task

        return prepare_task(self.config, _Progress(self.talk).report)

    def weights(self, name: str = "final") -> dict[str, np.ndarray] | None:
        """Trainable weights of a checkpoint; None if the run left none.

        Raises:
            ConfigError: If the file is damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = self.folder.path / "checkpoints" / f"{name}.safetensors"
        if not path.exists():
            return None
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise ConfigError(f"the checkpoint cannot be read: {error}", where=str(path)) from None


@dataclass
class _Progress:
    talk: Talk
    last: str = ""

    def report(self, what: str, done: int, total: int) -> None:
        """Name each kind of work once."""
        if what != self.last and done < total:
            self.last = what
            self.talk.say(f"{what} ...")


def step_memory(model: RunModel, say: Callable[[str], None]) -> int | None:
    """Peak bytes of one client step of a run; None, said aloud, where model or texts are missing."""
    from fluxctl.errors import FluxError

    try:
        task = model.task
    except FluxError as error:
        say(f"step memory of {model.folder.id} is left out: {error.message}")
        return None
    from fluxctl.learn.local_step import StepRequest
    from fluxctl.world.seeds import stream

    config = model.config
    uses_gradients = config.step.estimator in ("backprop", "local_sgd")
    step = config.step.model_copy(update={"estimator": "central_difference"}) if uses_gradients else config.step
    learner = task.learner.with_step(step)
    request = StepRequest(
        params=learner.initial_params(config.seed),
        samples=task.shards.bin_samples(0, 0),
        stream=stream(config.seed, "analysis-memory"),
    )
    measured = learner.step_memory(request)
    return measured.backprop_bytes if uses_gradients else measured.forward_gradient_bytes
