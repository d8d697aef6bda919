"""Our stages compute what the library's model computes; parameter counts match the known ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fluxctl.config.model import ModelConfig
from fluxctl.data.assets import minilm_folder
from fluxctl.errors import AssetError, ConfigError
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.model import build_encoder, load_encoder
from fluxctl.learn.packing import Packing
from fluxctl.learn.peft import adapter_blocks, trainable_stages
from fluxctl.learn.points import Points
from fluxctl.learn.pretrained import TINY, architecture_of, tiny_weights
from fluxctl.learn.stages import Flow, Pool

transformers = pytest.importorskip("transformers")


def small_model(family: str):
    torch.manual_seed(0)
    if family == "distilbert":
        config = transformers.DistilBertConfig(
            vocab_size=60, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20
        )
        return transformers.DistilBertModel(config)
    kind = {
        "bert": (transformers.BertConfig, transformers.BertModel),
        "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
    }[family]
    config = kind[0](
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=20,
        layer_norm_eps=1e-5,
    )
    return kind[1](config)


def last_hidden(encoder, token_ids, lengths):
    """Packed token vectors behind the last block; adapters, if any, hold zeros and are the identity."""
    packing = Packing.of(lengths.tolist(), attention=True)
    flow = Flow(encoder.embeddings.apply(token_ids, lengths))
    for stage in encoder.stages:
        if isinstance(stage, Pool):
            return flow.value.squeeze(0) if flow.value.dim() == 3 else flow.value
        flow = stage.apply(flow, Points(torch.zeros(1, encoder.layout.num_params)), packing)
    raise AssertionError("no pooling stage")


def texts(vocab: int, padding: int = 0):
    generator = np.random.default_rng(0)
    lengths = torch.tensor([3, 9, 1, 6])
    ids = torch.from_numpy(generator.integers(2, vocab, (4, 9)))
    kept = torch.arange(9) < lengths[:, None]
    ids[~kept] = padding
    return ids, lengths, kept


@pytest.mark.feature("B21")
def test_tiny_equals_the_bert_of_transformers() -> None:
    config = transformers.BertConfig(
        vocab_size=TINY.vocab,
        hidden_size=TINY.width,
        num_hidden_layers=TINY.blocks,
        num_attention_heads=TINY.heads,
        intermediate_size=TINY.inner,
        max_position_embeddings=TINY.positions,
        attn_implementation="eager",
    )
    reference = transformers.BertModel(config, add_pooling_layer=False).eval()
    reference.load_state_dict(tiny_weights(), strict=False)
    ids, lengths, kept = texts(TINY.vocab)
    encoder = load_encoder(ModelConfig(name="tiny", adapter_blocks=()), 4, None)
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=kept.long()).last_hidden_state[kept]
    torch.testing.assert_close(last_hidden(encoder, ids, lengths), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.feature("B21")
def test_tiny_is_the_same_every_time() -> None:
    first, second = tiny_weights(), tiny_weights()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first["embeddings.word_embeddings.weight"].std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.feature("B20")
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_a_folder_in_hugging_face_layout(family: str, tmp_path) -> None:
    reference = small_model(family).eval()
    reference.save_pretrained(tmp_path)
    padding = reference.config.pad_token_id or 0
    ids, lengths, kept = texts(60, padding)
    encoder = load_encoder(ModelConfig(name=str(tmp_path), adapter_blocks=(-1,)), 3, str(tmp_path))
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=kept.long()).last_hidden_state[kept]
    torch.testing.assert_close(last_hidden(encoder, ids, lengths), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.feature("B14")
@pytest.mark.parametrize(
    ("width", "dim", "blocks", "expected"),
    [
        (384, 16, (), 1_540),
        (384, 16, (5,), 14_228),
        (384, 16, (4, 5), 26_916),
        (384, 16, range(6), 77_668),
        (768, 48, range(6), 450_340),  # reduction 16 of DistilBERT's 768 is a bottleneck of 48
    ],
    ids=["minilm head", "minilm last", "minilm last two", "minilm all", "distilbert all"],
)
def test_parameter_counts(width: int, dim: int, blocks, expected: int) -> None:
    adapters, head = trainable_stages(width, tuple(blocks), dim, 4)
    layout = ParamLayout.of(shape for stage in [*adapters.values(), head] for shape in stage.shapes())
    assert layout.num_params == expected


@pytest.mark.feature("B14")
def test_adapter_counts_of_the_distilbert_shape() -> None:
    adapters, _ = trainable_stages(768, tuple(range(6)), 48, 4)
    sizes = [ParamLayout.of(adapter.shapes()).num_params for adapter in adapters.values()]
    assert sizes == [74_544] * 6
    assert sum(sizes) == 447_264


@pytest.mark.feature("B14")
def test_layout_is_in_block_order_whatever_was_asked() -> None:
    encoder = build_encoder(TINY, tiny_weights(), ModelConfig(adapter_blocks=(-1, 0), adapter_dim=2), 3)
    names = [
        f"block{block}.adapter.{part}"
        for block in (0, 1)
        for part in ("down.weight", "down.bias", "up.weight", "up.bias")
    ]
    assert encoder.layout.names() == [*names, "head.weight", "head.bias"]


def test_adapter_blocks_that_do_not_exist() -> None:
    assert adapter_blocks((-1, 0), 6) == (0, 5)
    with pytest.raises(ConfigError, match="block 6, but the model has 6 blocks"):
        adapter_blocks((6,), 6)
    with pytest.raises(ConfigError, match="twice"):
        adapter_blocks((5, -1), 6)


def test_models_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(AssetError, match="needs a folder"):
        load_encoder(ModelConfig(name="minilm"), 4, None)
    with pytest.raises(AssetError, match="cannot load"):
        load_encoder(ModelConfig(name=str(tmp_path)), 4, str(tmp_path))
    with pytest.raises(ConfigError, match="'gpt2' are not supported"):
        architecture_of({"model_type": "gpt2"})
    with pytest.raises(ConfigError, match="activation 'mish'"):
        architecture_of({"model_type": "bert", "hidden_act": "mish"})


@pytest.mark.demo
@pytest.mark.feature("B21")
def test_minilm_equals_transformers() -> None:
    folder = str(minilm_folder())
    ids, lengths, kept = texts(30_000)
    encoder = load_encoder(ModelConfig(), 4, folder)
    assert encoder.layout.num_params == 14_228
    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=kept.long()).last_hidden_state[kept]
    torch.testing.assert_close(last_hidden(encoder, ids, lengths), expected, rtol=1e-5, atol=1e-5)
