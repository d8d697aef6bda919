"""Which directions a step evaluates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.tangents import draw_directions, guided_direction, orthogonal_directions
from fluxctl.world.seeds import stream

LAYOUT = ParamLayout.of([("a", (3,)), ("b", (2, 2))])


def test_direction_p_is_draw_p() -> None:
    source = stream(0, "tangent", client=4)
    rows = draw_directions(50, 3, source)
    assert all(np.array_equal(rows[draw].numpy(), source.normals(50, draw)) for draw in range(3))
    base = torch.arange(50.0)
    with_base = draw_directions(50, 3, source, base)
    assert torch.equal(with_base[0], base)
    assert torch.equal(with_base[1:], rows)


@pytest.mark.feature("B12")
def test_guided_direction_takes_each_tensor_from_its_best_candidate() -> None:
    generator = torch.Generator().manual_seed(0)
    candidates = torch.randn(10, 7, generator=generator)
    guide = torch.randn(7, generator=generator)
    found = guided_direction(candidates, guide, LAYOUT)
    for spec in LAYOUT.specs:
        cosines = [float(torch.cosine_similarity(row[spec.span], guide[spec.span], dim=0)) for row in candidates]
        assert torch.equal(found[spec.span], candidates[cosines.index(max(cosines))][spec.span])
    assert len({int((candidates == found).all(dim=1).any())}) == 1


@pytest.mark.feature("B12")
def test_cosine_not_length_decides() -> None:
    candidates = torch.tensor([[10.0, 10.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
    guide = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    assert guided_direction(candidates, guide, LAYOUT).tolist() == [
        pytest.approx(0.1), 0.0, 0.0, 1.0, 0.0, 0.0, 0.0,
    ]  # fmt: skip


@pytest.mark.feature("B12")
@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_a_guide_that_says_nothing_takes_the_first_candidate(value: float) -> None:
    candidates = torch.randn(10, 7, generator=torch.Generator().manual_seed(1))
    guide = torch.full((7,), value)
    assert torch.equal(guided_direction(candidates, guide, LAYOUT), candidates[0])


@pytest.mark.feature("B12")
def test_orthogonal_directions_keep_their_lengths_and_share_nothing():
    source = stream(3, "tangent", client=1)
    drawn = draw_directions(40, 6, source)
    rows = orthogonal_directions(40, 6, source, torch.zeros(40))
    assert torch.equal(rows[0], torch.zeros(40))
    torch.testing.assert_close(rows[1], drawn[0])
    torch.testing.assert_close(rows[1:].norm(dim=1), drawn.norm(dim=1))
    gram = (rows[1:] @ rows[1:].t()) / 40
    assert (gram - torch.diag(gram.diagonal())).abs().max() < 1e-5


@pytest.mark.feature("B12")
def test_the_mean_over_orthogonal_directions_is_an_unbiased_gradient():
    """For a linear loss with gradient g, the mean of (g . v_p) v_p over many steps is g; with less scatter than free
    directions have, since no two of a step measure the same."""
    gradient = torch.linspace(-1, 1, 8)
    free, orthogonal = [], []
    for attempt in range(3000):
        source = stream(5, "tangent", client=0, attempt=attempt)
        for rows, found in (
            (draw_directions(8, 6, source), free),
            (orthogonal_directions(8, 6, source, torch.zeros(8))[1:], orthogonal),
        ):
            found.append(rows.t() @ (rows @ gradient) / 6)
    means, spreads = zip(
        *[(torch.stack(f).mean(0), torch.stack(f).var(0).sum()) for f in (free, orthogonal)], strict=True
    )
    assert (means[1] - gradient).abs().max() < 0.06
    assert spreads[1] < spreads[0]
