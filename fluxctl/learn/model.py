"""The language model as our own list of stages, with weights copied from a Hugging Face encoder.

BERT, RoBERTa and DistilBERT share one architecture (post-norm blocks) under different tensor names; a family is a
table of names. ``transformers`` is imported only when a model folder is read. Dropout does not exist here: every pass
of a finite difference must see the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.config.model import ModelConfig
from fluxctl.errors import AssetError, ConfigError
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.packing import Packing
from fluxctl.learn.points import Points
from fluxctl.learn.stages import ACTIVATIONS, Adapter, Attention, FeedForward, Flow, Head, OutputNorm, Pool, Stage
from fluxctl.world.seeds import stream

Weights = Mapping[str, Tensor]
POOL_EPS: Final = 1e-5


@dataclass(frozen=True)
class Family:
    """How one family of encoders names its tensors and reads its config.

    Attributes:
        block: Prefix of block ``{i}``.
        query, key, value, attention_out, attention_norm, dense_in, dense_out, output_norm: Names within a block.
        has_padded_positions: Positions start behind the padding index (RoBERTa).
    """

    block: str
    query: str
    key: str
    value: str
    attention_out: str
    attention_norm: str
    dense_in: str
    dense_out: str
    output_norm: str
    has_padded_positions: bool = False


_BERT_NAMES: Final = (
    "encoder.layer.{i}.",
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
FAMILIES: Final[dict[str, Family]] = {
    "bert": Family(*_BERT_NAMES),
    "roberta": Family(*_BERT_NAMES, has_padded_positions=True),
    "distilbert": Family(
        "transformer.layer.{i}.",
        "attention.q_lin",
        "attention.k_lin",
        "attention.v_lin",
        "attention.out_lin",
        "sa_layer_norm",
        "ffn.lin1",
        "ffn.lin2",
        "output_layer_norm",
    ),
}


@dataclass(frozen=True)
class Architecture:
    """Sizes of an encoder.

    Attributes:
        family: Key of :data:`FAMILIES`.
        vocab: Number of token ids.
        width: Hidden size.
        blocks: Number of transformer blocks.
        heads: Attention heads of a block.
        inner: Width of the feed-forward layer.
        positions: Longest text.
        first_position: Position id of the first token.
        activation: Key of ``ACTIVATIONS``.
        eps: Of the LayerNorms.
    """

    family: str
    vocab: int
    width: int
    blocks: int
    heads: int
    inner: int
    positions: int
    first_position: int = 0
    activation: str = "gelu"
    eps: float = 1e-12


#: The random model of unit tests and of `--model tiny`: a BERT small enough to encode a thousand texts in a second.
TINY: Final = Architecture(
    family="bert", vocab=512, width=32, blocks=2, heads=2, inner=64, positions=512, activation="gelu"
)


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


def tiny_weights(arch: Architecture = TINY) -> dict[str, Tensor]:
    """Random weights under their Hugging Face names: N(0, 0.1), LayerNorms near identity, the same on every machine."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (arch.vocab, arch.width),
        "embeddings.position_embeddings.weight": (arch.positions, arch.width),
        "embeddings.token_type_embeddings.weight": (2, arch.width),
        "embeddings.LayerNorm.weight": (arch.width,),
        "embeddings.LayerNorm.bias": (arch.width,),
    }
    names = FAMILIES[arch.family]
    square, wide = (arch.width, arch.width), (arch.inner, arch.width)
    layers = {
        **dict.fromkeys((names.query, names.key, names.value, names.attention_out), square),
        names.dense_in: wide,
        names.dense_out: (arch.width, arch.inner),
        **dict.fromkeys((names.attention_norm, names.output_norm), (arch.width,)),
    }
    for index in range(arch.blocks):
        for layer, shape in layers.items():
            name = names.block.format(i=index) + layer
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
    source = stream(0, "tiny-model")
    weights: dict[str, Tensor] = {}
    for draw, (name, shape) in enumerate(shapes.items()):
        values = torch.from_numpy(source.normals(torch.Size(shape).numel(), draw)).view(shape) * 0.1
        weights[name] = values + 1.0 if name.endswith(("LayerNorm.weight", "layer_norm.weight")) else values
    return weights


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


def read_folder(folder: str) -> tuple[Architecture, Weights]:
    """Read an encoder from a folder in Hugging Face layout, in float32.

    Raises:
        AssetError: If transformers cannot load it.
        ConfigError: If its family or activation is not supported.
    """
    from transformers import AutoConfig, AutoModel  # takes seconds; a warm run never gets here

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        arch = architecture_of(config.to_dict(), folder)
        module = AutoModel.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise AssetError(f"cannot load a model from {folder}: {str(error).splitlines()[0]}", where=folder) from error
    return arch, {name: tensor.detach() for name, tensor in module.eval().state_dict().items()}


def architecture_of(config: Mapping[str, object], where: str | None = None) -> Architecture:
    """Read the sizes from a Hugging Face config.

    Raises:
        ConfigError: If the family or activation is not supported.
    """
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ConfigError(f"models of type '{family}' are not supported", hint=f"supported: {known}", where=where)

    def size(*keys: str) -> int:
        return int(str(next(config[key] for key in keys if key in config)))

    activation = str(config.get("hidden_act", config.get("activation")))
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ConfigError(f"activation '{activation}' is not supported", hint=f"supported: {known}", where=where)
    first = size("pad_token_id") + 1 if FAMILIES[family].has_padded_positions else 0
    return Architecture(
        family=family,
        vocab=size("vocab_size"),
        width=size("hidden_size", "dim"),
        blocks=size("num_hidden_layers", "n_layers"),
        heads=size("num_attention_heads", "n_heads"),
        inner=size("intermediate_size", "hidden_dim"),
        positions=size("max_position_embeddings") - first,
        first_position=first,
        activation=activation,
        eps=float(str(config.get("layer_norm_eps", 1e-12))),
    )
