"""Where weights come from: a folder in Hugging Face layout, or keyed random numbers for ``tiny``.

BERT, RoBERTa and DistilBERT share one architecture (post-norm blocks) under different tensor names; a family is a table
of names. ``transformers`` is imported only when a folder is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor

from fluxctl.errors import AssetError, ConfigError
from fluxctl.learn.stages import ACTIVATIONS
from fluxctl.world.seeds import stream

#: Tensors under their Hugging Face names.
Weights: TypeAlias = Mapping[str, Tensor]


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
