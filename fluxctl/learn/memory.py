"""How much memory a client's step needs, forward gradient against back-propagation of the same trainable vector.

Back-propagation keeps what each operation will need again; a forward pass forgets it at once. The difference is what
forward gradients are for on small devices. Memory is counted, not sampled: every tensor storage that an operation
leaves behind, until its last reference is gone. So the answer is the same on every machine and in every run.
Scratch space inside a single kernel is not seen.

Source:
    Xu et al., FwdLLM, USENIX ATC 2024, arXiv:2308.13894 (memory as the case for forward gradients); Malladi et al.,
    NeurIPS 2023, arXiv:2305.17333.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fluxctl.config.model import StepConfig
from fluxctl.learn.controls import backprop
from fluxctl.learn.forward_grad import ESTIMATORS
from fluxctl.learn.local_step import StepRequest
from fluxctl.learn.points import Points
from fluxctl.learn.split import Batch, Suffix
from fluxctl.learn.tangents import draw_directions


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Peak working memory of one client's step, besides model, features and message, which both methods need.

    Attributes:
        forward_gradient_bytes: Of a forward gradient, one direction at a time.
        backprop_bytes: Of back-propagation.
    """

    forward_gradient_bytes: int
    backprop_bytes: int


def step_memory(request: StepRequest, batch: Batch, suffix: Suffix, step: StepConfig) -> StepMemory:
    """Measure both methods on one task.

    A client that is short of memory makes its passes one after the other, and so does this measurement, with one
    direction: the learner's batches of passes buy speed with memory.

    Args:
        request: The task.
        batch: Its mini-batch, prepared.
        suffix: What to evaluate.
        step: Estimator of the forward gradient.
    """

    def losses_at(points: Points) -> Tensor:
        return torch.cat([suffix.losses(Points(row.unsqueeze(0)), batch) for row in points.expanded().unbind()])

    def forward_gradient() -> Tensor:
        basis = draw_directions(suffix.layout.num_params, 1, request.stream, request.params)
        return basis[1] * ESTIMATORS[step.estimator](losses_at, basis, step.step_size).jvps[0]

    return StepMemory(
        forward_gradient_bytes=peak_bytes(forward_gradient),
        backprop_bytes=peak_bytes(lambda: backprop(request, batch, suffix)),
    )


def peak_bytes(work: Callable[[], object]) -> int:
    """Most bytes of tensor storage that ``work`` held at once, of what it allocated itself.

    Args:
        work: Runs torch operations in the calling thread.
    """
    meter = _Meter()
    with meter:
        work()
    return meter.peak


class _Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation's results and counts the storages that are alive."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and to tell torch's compiler so would import it, which takes over a second."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        given = {_storage_id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        result = func(*args, **(kwargs or {}))
        self._live = {key: entry for key, entry in self._live.items() if not _is_freed(entry[0])}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and (key := _storage_id(leaf)) not in given and key not in self._live:
                storage = leaf.untyped_storage()
                # The weak reference also keeps the address from being used again.
                self._live[key] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]
        self.peak = max(self.peak, sum(num_bytes for _, num_bytes in self._live.values()))
        return result


def _is_freed(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def _storage_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # the address of torch's own record; storages have no public identity
