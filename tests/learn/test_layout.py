"""The table of contents of the flat vector."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError
from fluxctl.learn.layout import ParamLayout

SHAPES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=6)


def named(shapes):
    return ParamLayout.of((f"t{index}", shape) for index, shape in enumerate(shapes))


@given(SHAPES)
def test_flatten_undoes_unflatten(shapes) -> None:
    layout = named(shapes)
    params = torch.arange(layout.num_params, dtype=torch.float32)
    parts = layout.unflatten(params)
    assert [tuple(part.shape) for part in parts.values()] == [spec.shape for spec in layout.specs]
    assert torch.equal(layout.flatten(parts, torch.empty_like(params)), params)


@given(SHAPES)
def test_tensors_tile_the_vector(shapes) -> None:
    covered = [index for spec in named(shapes).specs for index in range(spec.span.start, spec.span.stop)]
    assert covered == list(range(named(shapes).num_params))


def test_unflatten_keeps_leading_dimensions_and_shares_memory() -> None:
    layout = named([(2, 3), (4,)])
    params = torch.zeros(5, 10)
    layout.unflatten(params)["t0"][2, 1, 2] = 7.0
    assert params[2, 5] == 7.0


@pytest.mark.feature("B8")
def test_tracked_tensor(labs) -> None:
    with_adapter, head_only = labs("both").suffix.layout, labs("head").suffix.layout
    down = with_adapter.tensor("block0.adapter.down.weight")
    assert with_adapter.tracked("auto") == slice(down.offset, down.offset + down.size)
    assert head_only.tracked("auto") == slice(0, head_only.num_params)
    assert with_adapter.tracked("all") == slice(0, with_adapter.num_params)
    assert with_adapter.tracked("head.bias") == slice(with_adapter.num_params - 4, with_adapter.num_params)


def test_unknown_tensor_has_a_suggestion(labs) -> None:
    with pytest.raises(ConfigError, match="no trainable tensor 'head.weigth'") as caught:
        labs("head").suffix.layout.tracked("head.weigth")
    assert caught.value.hint == "did you mean 'head.weight'?"
