"""What stands in for model, data and learning when only the course of a run is asked for.

Sizes are those of the run: the trainable tensors follow from the model's architecture, a client's number of
mini-batches from the number of texts, a message's bytes from its real encoding. Contents are nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch

from fluxctl.config.model import Config, GateConfig, StepConfig
from fluxctl.data.assets import BUILT_IN_MODELS
from fluxctl.data.partition import Shards
from fluxctl.engine.messages import StepReport, Train, Update, Work
from fluxctl.engine.payload import Payload, encode
from fluxctl.engine.seed_scalar import SeedScalar, checksum_of
from fluxctl.engine.trainer import StepOutput
from fluxctl.errors import AssetError, InvariantError, UnknownNameError
from fluxctl.learn.evaluate import Evaluation
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.learner import Measurement, StepRequest, StepResult
from fluxctl.learn.peft import adapter_blocks, trainable_stages
from fluxctl.learn.pretrained import TINY, architecture_of
from fluxctl.learn.rebuild import num_described, rebuild
from fluxctl.registry import suggestion
from fluxctl.types import Mode, PayloadKind
from fluxctl.world.seeds import Stream

DEFAULT_CYCLES: Final = 15  # iterations of a bin under the presets' gates, in the mean of their runs


class Shape(NamedTuple):
    """Sizes of a model that matter here."""

    width: int
    blocks: int


_MINILM: Final = Shape(384, 6)


def model_shape(name: str) -> Shape:
    """Sizes of a configured model, from its ``config.json`` alone; those of the pinned MiniLM are known without it.

    Raises:
        UnknownNameError: If there is neither a built-in model nor a folder of this name.
        AssetError: If the folder has no readable ``config.json``.
    """
    if name == "tiny":
        return Shape(TINY.width, TINY.blocks)
    if name == "minilm":
        return _MINILM
    file = Path(name).expanduser() / "config.json"
    if not file.parent.is_dir():
        hint = suggestion(name, BUILT_IN_MODELS)
        raise UnknownNameError(
            f"there is no model '{name}', neither built in nor as a folder", where="model.name", hint=hint
        )
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssetError(f"the model's config.json cannot be read: {error}", where=str(file)) from None
    arch = architecture_of(described, str(file))
    return Shape(arch.width, arch.blocks)


def trainable_layout(config: Config) -> ParamLayout:
    """The trainable tensors of a run."""
    shape = model_shape(config.model.name)
    blocks = adapter_blocks(config.model.adapter_blocks, shape.blocks)
    adapters, head = trainable_stages(shape.width, blocks, config.model.adapter_dim, len(config.data.classes))
    shapes = [shape for adapter in adapters.values() for shape in adapter.shapes()]
    return ParamLayout.of([*shapes, *head.shapes()])


def even_shards(config: Config) -> Shards:
    """Shards of the sizes that dealing would give: they differ by at most one text. Their labels are not known."""
    num_texts, num_clients = config.data.train_per_class * len(config.data.classes), config.clients.num_clients
    sizes = np.full(num_clients, num_texts // num_clients, dtype=np.int64)
    sizes[: num_texts % num_clients] += 1
    ends = np.cumsum(sizes)
    clients = tuple(np.arange(end - size, end, dtype=np.int64) for end, size in zip(ends, sizes, strict=True))
    return Shards(clients, config.data.batch_size, np.zeros((num_clients, len(config.data.classes)), dtype=np.int64))


def cycles_of_gate(gate: GateConfig, wanted: int | None) -> int:
    """Cycles that a bin takes when nobody knows its variance: what is wanted, else the usual, within the cap."""
    if not gate.enabled:
        return 1
    cycles = DEFAULT_CYCLES if wanted is None else wanted
    has_cap = gate.stopping_policy != "off" and gate.max_iterations_per_bin is not None
    return min(cycles, gate.max_iterations_per_bin or cycles) if has_cap else cycles


def without_learning(config: Config, layout: ParamLayout, cycles_per_bin: int) -> Config:
    """The run with everything left out that needs a result of training.

    The gate opens after a fixed number of cycles, and no stop rule looks at accuracy or loss. The variance is judged on
    the smallest tensor, since it is none.
    """
    smallest = min(layout.specs, key=lambda spec: spec.size).name
    gate = {"stopping_policy": "fixed_cap", "max_iterations_per_bin": cycles_per_bin, "tracked_tensor": smallest}
    limits = {
        "target_accuracy": None,
        "divergence_guard": False,
        "stall_window_s": None,
        "max_runtime_s": config.runtime_budget_s(),
    }
    messages = {"weights": "full"}  # how much differs is a result of training
    engine = {"num_workers": 1, "charge_compute": "modelled", "fault_client": None}
    return config.model_copy(
        update={
            "mode": Mode.SIM,
            "gate": config.gate.model_copy(update=gate),
            "messages": config.messages.model_copy(update=messages),
            "limits": config.limits.model_copy(update=limits),
            "engine": config.engine.model_copy(update=engine),
        }
    )


class NoLearner:
    """A learner that has learned nothing and never will.

    Args:
        layout: The trainable tensors.
        num_classes: Labels, for evaluations that could be true.
    """

    def __init__(self, layout: ParamLayout, num_classes: int) -> None:
        self.layout = layout
        chance, counts = 1 / num_classes, (1,) * num_classes
        self._evaluation = Evaluation(chance, float(np.log(num_classes)), 0.0, counts, counts, num_classes)

    def initial_params(self, seed: int) -> torch.Tensor:  # noqa: ARG002 - the protocol's
        """Zeros, shape ``(d,)``."""
        return torch.zeros(self.layout.num_params)

    def evaluate(self, params: torch.Tensor) -> Evaluation:  # noqa: ARG002
        """Chance."""
        return self._evaluation

    def step(self, request: StepRequest) -> StepResult:  # noqa: ARG002
        """Never called: updates come ready-made."""
        raise InvariantError("nothing is computed in a plan")

    def measure(self, request: StepRequest) -> Measurement:  # noqa: ARG002
        """Never called either."""
        raise InvariantError("nothing is computed in a plan")


class NoWork:
    """What clients do where nothing is computed; updates come ready-made, see :class:`Answers`."""

    def receive(self, task: Train) -> None:
        """Keep nothing."""

    def step(self, task: Train) -> StepOutput:  # noqa: ARG002 - the protocol's
        """Never called."""
        raise InvariantError("nothing is computed in a plan")


class Answers:
    """Updates without content; the same bytes for every task, as long as the real ones.

    The gradient is not a number in the tensor that the gate looks at: an undefined variance never opens it, and no
    controller draws conclusions from it.

    Args:
        layout: The trainable tensors.
        tracked_tensor: The tensor that the gate looks at.
        num_samples: Texts of a mini-batch.
        num_classes: Labels; an untrained model's loss is the logarithm of their number.
        step: Described updates are those of this step; None = updates are gradients.
    """

    def __init__(
        self,
        layout: ParamLayout,
        tracked_tensor: str,
        num_samples: int,
        num_classes: int,
        step: StepConfig | None = None,
    ) -> None:
        gradient = np.zeros(layout.num_params, dtype=np.float32)
        gradient[layout.tracked(tracked_tensor)] = np.nan
        loss = float(np.log(num_classes))
        utility = num_samples * loss
        self._payloads = {
            Work.TRAIN: encode(
                Payload(PayloadKind.GRADIENT, 0, 0, 0, (gradient,), loss, utility, num_samples)
                if step is None
                else Payload(PayloadKind.SEED_SCALAR, 0, 0, 0, (), loss, utility, num_samples, _described(layout, step))
            ),
            Work.EVALUATE: encode(Payload(PayloadKind.MEASUREMENT, 0, 0, 0, (), loss, utility, num_samples)),
        }
        self._report = StepReport(forward_passes=0, num_directions=0, jvp=0.0)

    def __call__(self, task: Train) -> Update:
        """The update that comes of a task."""
        payload = self._payloads[task.work]
        return Update(0, task, task.dispatch_ns, task.earliest_due_ns, task.earliest_due_ns, payload, self._report)


def _described(layout: ParamLayout, step: StepConfig) -> bytes:
    """An update whose derivatives are not numbers, as its directions' seed and these."""
    draws = tuple(range(num_described(step)))
    jvps = (float("nan"),) * len(draws)
    gradient = rebuild(layout.num_params, Stream((0, 0)), draws, jvps, step)
    return SeedScalar((0, 0), draws, jvps, checksum_of(gradient.numpy())).pack()
