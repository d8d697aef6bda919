"""The frozen prefix and the suffix give what the whole model gives, however the work is batched."""

from __future__ import annotations

import json

import pytest
import torch

from fluxctl.config.model import ModelConfig
from fluxctl.data.assets import minilm_folder
from fluxctl.learn.closed_form import AdapterTail
from fluxctl.learn.features import FeatureSet
from fluxctl.learn.model import load_encoder
from fluxctl.learn.points import Points
from fluxctl.learn.split import Suffix, split_encoder

SAMPLES = (3, 0, 17, 8, 21, 39, 5, 30)
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def rows_of_params(lab, num: int = 5):
    return lab.params() * torch.linspace(-1.0, 2.0, num)[:, None]


@pytest.mark.feature("B13")
@pytest.mark.parametrize(
    ("name", "point"),
    [("head", "pooled"), ("last", "block1.ffn_output"), ("first", "block0.ffn_output"), ("both", "block0.ffn_output")],
)
def test_split_is_before_the_first_trainable_operation(labs, name: str, point: str) -> None:
    lab = labs(name)
    assert lab.prefix.split_point == point
    assert lab.suffix.layout == lab.encoder.layout
    assert lab.features.values.shape[1] == lab.prefix.width
    rows = lab.features.num_samples if name == "head" else int(lab.lengths.sum())
    assert len(lab.features.values) == rows


@pytest.mark.feature("B13")
def test_cached_equals_uncached(lab) -> None:
    params = rows_of_params(lab)
    chosen = list(SAMPLES)
    expected = lab.encoder.logits(params, lab.token_ids[chosen], lab.lengths[chosen])
    batch = lab.suffix.batch(*lab.features.gather(SAMPLES))
    torch.testing.assert_close(lab.suffix(params, batch), expected, **CLOSE)


@pytest.mark.feature("B13")
def test_cached_is_bit_identical_at_equal_batching(lab) -> None:
    """Stage by stage, on features of the same mini-batch: the cache adds no rounding."""
    params = rows_of_params(lab, 2)
    chosen = list(SAMPLES)
    expected = lab.encoder.logits(params, lab.token_ids[chosen], lab.lengths[chosen])
    features = lab.prefix.encode(lab.token_ids[chosen], lab.lengths[chosen])
    staged = Suffix(lab.suffix.stages, closed_form=False)
    batch = staged.batch(torch.cat(features), [len(rows) for rows in features], lab.features.labels[chosen])
    assert torch.equal(staged(params, batch), expected)


@pytest.mark.feature("B13")
def test_closed_form_equals_the_stages(labs) -> None:
    lab = labs("last")
    staged = Suffix(lab.suffix.stages, closed_form=False)
    for scale in (0.01, 0.3, 3.0):
        params = rows_of_params(lab) * scale
        expected = staged(params, staged.batch(*lab.features.gather(SAMPLES)))
        found = lab.suffix(params, lab.suffix.batch(*lab.features.gather(SAMPLES)))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.demo
@pytest.mark.feature("B13", "B21")
def test_closed_form_on_the_real_model() -> None:
    """Outlier dimensions of a trained encoder cost no digits that a finite difference needs."""
    encoder = load_encoder(ModelConfig(), 4, str(minilm_folder()))
    prefix, suffix = split_encoder(encoder)
    generator = torch.Generator().manual_seed(0)
    token_ids = torch.randint(1000, 20_000, (8, 20), generator=generator)
    lengths = torch.tensor([20, 5, 12, 9, 17, 3, 14, 11])
    params = torch.randn(2, suffix.layout.num_params, generator=generator) * 0.03
    features = FeatureSet.of(prefix.encode(token_ids, lengths), [0] * 8)
    found = suffix(params, suffix.batch(*features.gather(range(8))))
    torch.testing.assert_close(found, encoder.logits(params, token_ids, lengths), rtol=1e-5, atol=1e-5)


def test_closed_form_is_used_only_where_it_holds(labs) -> None:
    assert AdapterTail.match(labs("last").suffix.stages) is not None
    assert AdapterTail.match(labs("head").suffix.stages) is None
    assert AdapterTail.match(labs("both").suffix.stages) is None


def test_many_vectors_at_once_equal_one_by_one(lab) -> None:
    params = rows_of_params(lab)
    batch = lab.suffix.batch(*lab.features.gather(SAMPLES))
    together = lab.suffix(params, batch)
    for index in range(len(params)):
        torch.testing.assert_close(lab.suffix(params[index : index + 1], batch)[0], together[index], **CLOSE)


@pytest.mark.parametrize("with_base", [False, True])
def test_basis_and_scales_equal_the_plain_vectors(lab, with_base: bool) -> None:
    basis = torch.stack([lab.params(), lab.params(1.0).flip(0), lab.params(1.0).roll(7)])
    points = Points(basis, torch.tensor([0.01, -0.02]), with_base)
    theta, first, second = basis
    plain = [theta + 0.01 * first, theta + 0.01 * second, theta - 0.02 * first, theta - 0.02 * second]
    expected = torch.stack([theta, *plain] if with_base else plain)
    assert points.num_points == len(expected)
    torch.testing.assert_close(points.expanded(), expected)
    batch = lab.suffix.batch(*lab.features.gather(SAMPLES))
    torch.testing.assert_close(lab.suffix.logits(points, batch), lab.suffix(expected, batch), **CLOSE)


def test_a_text_does_not_see_its_neighbours(lab) -> None:
    params = rows_of_params(lab, 1)
    alone = lab.suffix(params, lab.suffix.batch(*lab.features.gather((8,))))
    among = lab.suffix(params, lab.suffix.batch(*lab.features.gather(SAMPLES)))
    torch.testing.assert_close(among[:, 3:4], alone, **CLOSE)


@pytest.mark.feature("B13")
def test_state_round_trip(lab) -> None:
    arrays, meta = lab.suffix.state()
    rebuilt = Suffix.from_state(dict(arrays), json.loads(json.dumps(meta)))
    assert rebuilt.layout == lab.suffix.layout
    assert rebuilt.num_labels == 4
    params = rows_of_params(lab)
    first = lab.suffix(params, lab.suffix.batch(*lab.features.gather(SAMPLES)))
    second = rebuilt(params, rebuilt.batch(*lab.features.gather(SAMPLES)))
    assert torch.equal(first, second)


def test_broken_state_is_named(labs) -> None:
    arrays, meta = labs("last").suffix.state()
    with pytest.raises(ValueError, match=r"lacks 'block1\.output\.norm_weight'"):
        Suffix.from_state({}, meta)
    with pytest.raises(ValueError, match="no list of stages"):
        Suffix.from_state(arrays, {})
    with pytest.raises(ValueError, match="not a stage"):
        Suffix.from_state(arrays, {"stages": [{"kind": "teapot"}]})


def test_gathering_copies_in_the_given_order(labs) -> None:
    features = labs("last").features
    rows, lengths, labels = features.gather((5, 2))
    starts = features.offsets.tolist()
    assert torch.equal(rows[: lengths[0]], features.values[starts[5] : starts[6]])
    assert lengths == [starts[6] - starts[5], starts[3] - starts[2]]
    assert labels.tolist() == [features.labels[5], features.labels[2]]
    before = features.values.clone()
    rows.zero_()
    assert torch.equal(features.values, before)


def test_features_that_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match="do not belong together"):
        FeatureSet(torch.zeros(3, 2), torch.tensor([0, 1, 2]), torch.tensor([0, 1]))
