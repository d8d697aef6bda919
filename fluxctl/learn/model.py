"""The language model as our own list of stages, from token ids to logits.

Dropout does not exist here: every pass of a finite difference must see the same function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.config.model import ModelConfig
from fluxctl.errors import AssetError
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.packing import Packing
from fluxctl.learn.peft import Adapter, adapter_blocks, trainable_stages
from fluxctl.learn.points import Points
from fluxctl.learn.pretrained import FAMILIES, TINY, Architecture, Family, Weights, read_folder, tiny_weights
from fluxctl.learn.stages import Attention, FeedForward, Flow, OutputNorm, Pool, Stage

__all__ = ["TINY", "Embeddings", "Encoder", "build_encoder", "load_encoder", "tiny_weights"]

#: Of the LayerNorm behind the pooling; torch's default.
POOL_EPS: Final = 1e-5


@dataclass(frozen=True)
class Embeddings:
    """Token, position and segment embeddings and their LayerNorm; always frozen.

    Attributes:
        words: Shape ``(vocab, width)``.
        positions: Row p belongs to the p-th token; segment 0 is already added. Shape ``(longest text, width)``.
    """

    words: Tensor
    positions: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    eps: float

    def apply(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Embed right-padded texts ``(B, T)`` into packed tokens ``(sum of lengths, width)``."""
        kept = torch.arange(token_ids.shape[1]) < lengths[:, None]
        places = torch.arange(token_ids.shape[1]).expand_as(token_ids)[kept]
        x = self.words[token_ids[kept]] + self.positions[places]
        return F.layer_norm(x, x.shape[-1:], self.norm_weight, self.norm_bias, self.eps)


@dataclass(frozen=True)
class Encoder:
    """Embeddings and stages up to the logits.

    Attributes:
        embeddings: Token ids to vectors.
        stages: Everything behind, in order; the last is the head.
        width: Hidden size.
        layout: The trainable tensors.
    """

    embeddings: Embeddings
    stages: tuple[Stage, ...]
    width: int
    layout: ParamLayout

    def logits(self, params: Tensor, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Run the whole model without any cache: the plain loop that the split is measured against.

        Args:
            params: R parameter vectors, shape ``(R, d)``.
            token_ids: Right-padded, shape ``(B, T)``, int64.
            lengths: Shape ``(B,)``, int64.

        Returns:
            Shape ``(R, B, labels)``.
        """
        packing = Packing.of(lengths.tolist(), attention=True)
        flow = Flow(self.embeddings.apply(token_ids, lengths))
        for stage in self.stages:
            flow = stage.apply(flow, Points(params), packing)
        return flow.value


def build_encoder(arch: Architecture, weights: Weights, model: ModelConfig, num_labels: int) -> Encoder:
    """Assemble an encoder from tensors under their Hugging Face names."""
    names = FAMILIES[arch.family]
    adapters, head = trainable_stages(
        arch.width, adapter_blocks(model.adapter_blocks, arch.blocks), model.adapter_dim, num_labels
    )
    stages: list[Stage] = []
    for index in range(arch.blocks):
        adapter = adapters.get(index)
        stages += _block(arch, names, weights, index, adapter)
    stages += [Pool("pooled", POOL_EPS), head]
    layout = ParamLayout.of(shape for stage in stages for shape in stage.shapes())
    return Encoder(_embeddings(arch, weights), tuple(stages), arch.width, layout)


def _embeddings(arch: Architecture, weights: Weights) -> Embeddings:
    positions = weights["embeddings.position_embeddings.weight"][arch.first_position :]
    segments = weights.get("embeddings.token_type_embeddings.weight")
    if segments is not None:
        positions = positions + segments[0]
    return Embeddings(
        words=weights["embeddings.word_embeddings.weight"],
        positions=positions,
        norm_weight=weights["embeddings.LayerNorm.weight"],
        norm_bias=weights["embeddings.LayerNorm.bias"],
        eps=arch.eps,
    )


def _block(arch: Architecture, names: Family, weights: Weights, index: int, adapter: Adapter | None) -> list[Stage]:
    prefix = names.block.format(i=index)

    def pair(*parts: str) -> tuple[Tensor, Tensor]:
        layers = [(weights[f"{prefix}{part}.weight"], weights[f"{prefix}{part}.bias"]) for part in parts]
        return torch.cat([weight for weight, _ in layers]), torch.cat([bias for _, bias in layers])

    qkv = pair(names.query, names.key, names.value)
    attention = Attention(
        f"block{index}.attention_output",
        arch.heads,
        arch.eps,
        *qkv,
        *pair(names.attention_out),
        *pair(names.attention_norm),
    )
    feed_forward = FeedForward(
        f"block{index}.ffn_output", arch.activation, *pair(names.dense_in), *pair(names.dense_out)
    )
    norm = OutputNorm(f"block{index}.output", arch.eps, *pair(names.output_norm))
    return [attention, feed_forward, *([adapter] if adapter else []), norm]


def load_encoder(model: ModelConfig, num_labels: int, folder: str | None) -> Encoder:
    """Build the encoder that ``model`` asks for.

    Args:
        model: Name and adapters.
        num_labels: Classes of the head.
        folder: Folder in Hugging Face layout; None for ``tiny``.

    Raises:
        AssetError: If the folder cannot be read as a model.
        ConfigError: If the model's family or activation is not supported, or an adapter block does not exist.
    """
    if model.name == "tiny":
        return build_encoder(TINY, tiny_weights(), model, num_labels)
    if folder is None:
        raise AssetError(f"model '{model.name}' needs a folder in Hugging Face layout", hint="or use the model 'tiny'")
    arch, weights = read_folder(folder)
    return build_encoder(arch, weights, model, num_labels)
