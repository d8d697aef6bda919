"""Sizes of what a plan leaves out are those of the run."""

import json

import pytest

from fluxctl.config.model import Config, GateConfig
from fluxctl.data.partition import partition
from fluxctl.engine.messages import Work
from fluxctl.engine.payload import update_bytes
from fluxctl.engine.prepare import prepare_task
from fluxctl.errors import AssetError, ConfigError, UnknownNameError
from fluxctl.learn.model import TINY, build_encoder, tiny_weights
from fluxctl.whatif.stub import Answers, cycles_of_gate, even_shards, model_shape, trainable_layout


@pytest.mark.parametrize("blocks", [(), (-1,), (0, -1)])
def test_the_trainable_tensors_are_the_models(config_of, blocks):
    config = config_of(model__adapter_blocks=blocks, model__adapter_dim=5)
    encoder = build_encoder(TINY, tiny_weights(), config.model, len(config.data.classes))
    assert trainable_layout(config) == encoder.layout


@pytest.mark.demo
def test_the_sizes_of_the_pretrained_model():
    config = Config()
    assert trainable_layout(config) == prepare_task(config, lambda what, done, total: None).learner.layout


def test_minilm_is_known_without_its_files():
    assert trainable_layout(Config()).num_params == 14_228  # 2 x 384 x 16 + 16 + 384, and 4 x 384 + 4


def test_a_folder_is_read_from_its_description(tmp_path):
    described = {
        "model_type": "bert", "vocab_size": 10, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 128, "max_position_embeddings": 32, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(described))
    assert model_shape(str(tmp_path)) == (64, 3)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(AssetError, match=r"config\.json cannot be read"):
        model_shape(str(tmp_path))


def test_an_unknown_model_is_told():
    with pytest.raises(UnknownNameError, match="there is no model 'minlm'") as caught:
        model_shape("minlm")
    assert "minilm" in str(caught.value.hint)


def test_a_block_that_is_not_there_is_refused(config_of):
    with pytest.raises(ConfigError, match="names block 7"):
        trainable_layout(config_of(model__adapter_blocks=(7,)))


def test_shards_have_the_sizes_that_dealing_gives(config_of):
    config = config_of(clients__num_clients=7, data__train_per_class=25)
    labels = [label for label in range(4) for _ in range(25)]
    import numpy as np

    dealt = partition(np.array(labels), 4, 7, config.partition, 0, batch_size=8)
    ours = even_shards(config)
    assert sorted(map(len, ours.clients)) == sorted(map(len, dealt.clients))
    assert ours.max_bins == dealt.max_bins


def test_an_update_is_as_long_as_a_real_one(config_of):
    config = config_of()
    layout = trainable_layout(config)

    class Task:
        dispatch_ns = 2
        earliest_due_ns = 5
        work = Work.TRAIN

    update = Answers(layout, "logits.bias" if "logits.bias" in layout.names() else layout.names()[-1], 8, 4)(Task())
    assert (len(update.payload), update.due_ns) == (update_bytes(layout.num_params), 5)


@pytest.mark.parametrize(
    ("gate", "wanted", "cycles"),
    [
        ({"enabled": False}, 7, 1),
        ({}, None, 15),
        ({}, 40, 40),
        ({"stopping_policy": "fixed_cap", "max_iterations_per_bin": 6}, None, 6),
        ({"stopping_policy": "plateau", "max_iterations_per_bin": 20}, None, 15),
        ({"stopping_policy": "plateau", "max_iterations_per_bin": 20}, 30, 20),
        ({"stopping_policy": "off", "max_iterations_per_bin": 6}, 9, 9),
    ],
)
def test_cycles_of_a_bin(gate, wanted, cycles):
    assert cycles_of_gate(GateConfig(**gate), wanted) == cycles
