"""The trainable parts: a bottleneck adapter in chosen blocks, and the head.

Both are stages whose values arrive from outside. Where they lie in the flat vector is fixed here: adapters by
ascending block, then the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.errors import ConfigError
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.packing import Packing
from fluxctl.learn.points import Points
from fluxctl.learn.stages import Flow, Shapes


@dataclass(frozen=True)
class Adapter:
    """A trainable bottleneck on the feed-forward output: ``y + up(silu(down(y)))``.

    Both weights are stored with the bottleneck as their first dimension, so that the weights of many parameter
    vectors fold into one tall matrix; the up-projection with its bias is one ``(dim + 1, width)`` matrix in the flat
    vector.

    Attributes:
        output: Name of the result.
        prefix: Names the tensors, for example ``block5.adapter``.
        start: Index of its first parameter in the flat vector.
        width: Of the encoder.
        dim: Bottleneck width r.

    Source:
        Houlsby et al., Parameter-Efficient Transfer Learning for NLP, ICML 2019, arXiv:1902.00751; its common
        implementations use this smooth activation, which finite differences need.
    """

    kind: ClassVar[str] = "adapter"
    output: str
    prefix: str
    start: int
    width: int
    dim: int

    def shapes(self) -> Shapes:
        """Names and shapes of its four tensors."""
        return (
            (f"{self.prefix}.down.weight", (self.dim, self.width)),
            (f"{self.prefix}.down.bias", (self.dim,)),
            (f"{self.prefix}.up.weight", (self.dim, self.width)),
            (f"{self.prefix}.up.bias", (self.width,)),
        )

    def down(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Down-projections in parameter rows ``(S, d)``: views, shapes ``(S, dim, width)`` and ``(S, dim)``."""
        middle = self.start + self.dim * self.width
        weight = rows[:, self.start : middle].view(-1, self.dim, self.width)
        return weight, rows[:, middle : middle + self.dim]

    def up(self, rows: Tensor) -> Tensor:
        """Up-projections in parameter rows ``(S, d)``, the bias as last row: a view, shape ``(S, dim + 1, width)``."""
        start = self.start + self.dim * (self.width + 1)
        return rows[:, start : start + (self.dim + 1) * self.width].view(-1, self.dim + 1, self.width)

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage."""
        if flow.total is None:
            raise ValueError("an adapter follows a feed-forward stage")
        weight, bias = (points.expand(part) for part in self.down(points.basis))
        hidden = F.silu(torch.matmul(flow.value, weight.mT) + bias.unsqueeze(1))
        up = points.expand(self.up(points.basis))
        delta = torch.matmul(hidden, up[:, :-1]) + up[:, -1:]
        return Flow(flow.value, flow.total + delta)


@dataclass(frozen=True)
class Head:
    """The trainable linear classifier.

    Attributes:
        output: Name of the result.
        start: Index of its first parameter in the flat vector.
        width: Of the encoder.
        labels: Number of classes.
    """

    kind: ClassVar[str] = "head"
    output: str
    start: int
    width: int
    labels: int

    def shapes(self) -> Shapes:
        """Names and shapes of its two tensors."""
        return (("head.weight", (self.labels, self.width)), ("head.bias", (self.labels,)))

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage: logits, shape ``(R, num_samples, labels)``."""
        rows = points.basis[:, self.start : self.start + self.labels * (self.width + 1)]
        if flow.value.dim() == 2:  # a shared input: logits are linear in the parameters
            weight, bias = self._parts(rows)
            image = torch.mm(weight.reshape(-1, self.width), flow.value.t()).view(len(rows), self.labels, -1)
            return Flow(points.expand(image.add_(bias.unsqueeze(2))).mT)
        weight, bias = self._parts(points.expand(rows))
        return Flow(torch.baddbmm(bias.unsqueeze(1), flow.value, weight.mT))

    def _parts(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        weight = rows[:, : self.labels * self.width].view(-1, self.labels, self.width)
        return weight, rows[:, self.labels * self.width :]


def adapter_blocks(requested: tuple[int, ...], num_blocks: int) -> tuple[int, ...]:
    """Resolve block numbers, negative ones from the last, into ascending order.

    Raises:
        ConfigError: If a block does not exist or is named twice.
    """
    outside = [block for block in requested if not -num_blocks <= block < num_blocks]
    if outside:
        raise ConfigError(
            f"model.adapter_blocks names block {outside[0]}, but the model has {num_blocks} blocks",
            hint=f"use 0 to {num_blocks - 1}, or -1 for the last",
        )
    resolved = tuple(sorted({block % num_blocks for block in requested}))
    if len(resolved) != len(requested):
        raise ConfigError("model.adapter_blocks names a block twice", hint=f"blocks once each: {list(resolved)}")
    return resolved


def trainable_stages(width: int, blocks: tuple[int, ...], dim: int, num_labels: int) -> tuple[dict[int, Adapter], Head]:
    """The adapters by block, and the head, with their places in the flat vector."""
    adapters: dict[int, Adapter] = {}
    start = 0
    for block in blocks:
        adapters[block] = Adapter(f"block{block}.adapter_output", f"block{block}.adapter", start, width, dim)
        start += sum(spec.size for spec in ParamLayout.of(adapters[block].shapes()).specs)
    return adapters, Head("logits", start, width, num_labels)
