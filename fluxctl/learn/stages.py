"""An encoder as an explicit list of stages.

A library model hides where its first trainable operation is. Here every step from token ids to logits is one small
frozen object, so that ``split`` can cut between any two of them, cache what comes before and run only the rest.
Stages own no trainable values: these arrive as :class:`~fluxctl.learn.points.Points`, so one call serves any number
of parameter vectors.

Tensors between stages are ``(num_tokens, width)`` while all parameter vectors still share them and ``(R, num_tokens,
width)`` from the first trainable stage on; frozen operations fold R into the rows of their matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.learn.packing import Packing
from fluxctl.learn.points import Points

Shapes = tuple[tuple[str, tuple[int, ...]], ...]

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


class Flow(NamedTuple):
    """What one stage hands to the next.

    Attributes:
        value: The stage's output; between feed-forward and output norm, the feed-forward branch alone.
        total: The branch plus the residual, only between feed-forward and output norm.
    """

    value: Tensor
    total: Tensor | None = None


class Stage(Protocol):
    """One step of the encoder.

    Attributes:
        kind: Names the class in saved metadata.
        output: Names what the stage hands on, for example ``block5.ffn_output``; split points are called by it.
    """

    kind: ClassVar[str]

    @property
    def output(self) -> str:
        """Name of what the stage hands on."""
        ...

    def shapes(self) -> Shapes:
        """Names and shapes of the trainable tensors, in layout order; empty for a frozen stage."""
        ...

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:
        """Run the stage for all points at once."""
        ...


class _Frozen:
    """A stage with nothing to train."""

    def shapes(self) -> Shapes:
        return ()


@dataclass(frozen=True)
class Attention(_Frozen):
    """Self-attention, residual and LayerNorm.

    The attention is written out: fused kernels have no forward-mode derivative.

    Attributes:
        output: Name of the result.
        heads: Number of heads.
        eps: Of the LayerNorm.
        qkv_weight: Query, key and value projections stacked, shape ``(3 * width, width)``.
    """

    kind: ClassVar[str] = "attention"
    output: str
    heads: int
    eps: float
    qkv_weight: Tensor
    qkv_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor
    norm_weight: Tensor
    norm_bias: Tensor

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage."""
        x = flow.value
        context = self._attend(F.linear(x, self.qkv_weight, self.qkv_bias), packing)
        mixed = F.linear(context, self.out_weight, self.out_bias)
        return Flow(F.layer_norm(mixed + x, x.shape[-1:], self.norm_weight, self.norm_bias, self.eps))

    def _attend(self, qkv: Tensor, packing: Packing) -> Tensor:
        if packing.padding is None:
            raise ValueError("attention needs a packing with padding")
        samples, longest = packing.padding.shape
        lead = qkv.shape[:-2]
        width = qkv.shape[-1] // 3
        padded = qkv.index_select(-2, packing.padding.to_padded)
        # (..., samples, longest, 3, heads, head width) -> three times (..., samples, heads, longest, head width)
        split = (
            padded.view(*lead, samples, longest, 3, self.heads, width // self.heads).movedim(-3, 0).transpose(-3, -2)
        )
        query, key, value = split[0], split[1], split[2]
        scores = torch.matmul(query, key.mT) * (width // self.heads) ** -0.5
        weights = torch.softmax(scores + packing.padding.bias, dim=-1)
        context = torch.matmul(weights, value).transpose(-3, -2).reshape(*lead, samples * longest, width)
        return context.index_select(-2, packing.padding.to_packed)


@dataclass(frozen=True)
class FeedForward(_Frozen):
    """The two dense layers of a block; hands on their output and its sum with the residual."""

    kind: ClassVar[str] = "feed_forward"
    output: str
    activation: str
    in_weight: Tensor
    in_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage."""
        inner = ACTIVATIONS[self.activation](F.linear(flow.value, self.in_weight, self.in_bias))
        branch = F.linear(inner, self.out_weight, self.out_bias)
        return Flow(branch, branch + flow.value)


@dataclass(frozen=True)
class OutputNorm(_Frozen):
    """The LayerNorm that closes a block."""

    kind: ClassVar[str] = "output_norm"
    output: str
    eps: float
    norm_weight: Tensor
    norm_bias: Tensor

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage."""
        if flow.total is None:
            raise ValueError("an output norm follows a feed-forward stage")
        return Flow(F.layer_norm(flow.total, flow.total.shape[-1:], self.norm_weight, self.norm_bias, self.eps))


@dataclass(frozen=True)
class Pool(_Frozen):
    """Mean over a text's tokens, then LayerNorm without affine: one vector per text."""

    kind: ClassVar[str] = "pool"
    output: str
    eps: float

    def apply(self, flow: Flow, points: Points, packing: Packing) -> Flow:  # noqa: ARG002
        """Run the stage."""
        pooled = torch.matmul(packing.average, flow.value)
        return Flow(F.layer_norm(pooled, pooled.shape[-1:], eps=self.eps))
