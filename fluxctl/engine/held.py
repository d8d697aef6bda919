"""What clients keep on their devices between tasks: the last weights that they received."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fluxctl.engine.messages import Train
from fluxctl.engine.payload import Payload, decode
from fluxctl.engine.weight_delta import apply_delta, base_version_of
from fluxctl.errors import InvariantError
from fluxctl.types import ClientId, PayloadKind


@dataclass(frozen=True, slots=True)
class HeldModel:
    """Weights, and the last aggregate when it was sent, shape ``(d,)`` each."""

    version: int
    params: Tensor
    guide: Tensor | None = None


@dataclass
class HeldModels:
    """The models of all clients. Written when tasks are sent, in their order; read by steps, in any thread."""

    _models: dict[ClientId, HeldModel] = field(default_factory=dict)
    _opened: dict[int, tuple[bytes, HeldModel]] = field(default_factory=dict)  # messages of one version, by identity

    def receive(self, task: Train) -> None:
        """Keep the weights that came with a task.

        Raises:
            InvariantError: If they are relative to a version that the client does not have.
        """
        known = self._opened.get(id(task.payload))  # all clients in one situation are sent the same bytes
        if known is None:
            payload = decode(task.payload)
            if payload.kind is PayloadKind.KEEP_GOING:
                return
            model = _opened(payload, self._models.get(task.client), task.client)
            if any(other.version != model.version for _, other in self._opened.values()):
                self._opened.clear()
            known = self._opened[id(task.payload)] = (task.payload, model)
        self._models[task.client] = known[1]

    def of(self, task: Train) -> HeldModel:
        """The model that a task is about.

        Raises:
            InvariantError: If its client is told to keep going with weights that it does not have.
        """
        held = self._models.get(task.client)
        if held is None or held.version != task.version:
            has = "none" if held is None else f"version {held.version}"
            raise InvariantError(f"client {task.client} must train version {task.version}, but has {has}")
        return held


def _opened(payload: Payload, held: HeldModel | None, client: ClientId) -> HeldModel:
    if payload.kind is PayloadKind.DELTA:
        base = base_version_of(payload.body)
        if held is None or held.version != base:
            raise InvariantError(f"client {client} is sent a delta on version {base}, which it does not have")
        return HeldModel(payload.version, torch.from_numpy(apply_delta(payload.body, held.params.numpy())))
    tensors = [torch.from_numpy(vector.copy()) for vector in payload.vectors]
    return HeldModel(payload.version, tensors[0], tensors[1] if len(tensors) > 1 else None)
