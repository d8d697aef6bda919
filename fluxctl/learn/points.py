"""The parameter vectors that one step evaluates, kept as few basis vectors.

A finite difference asks for the loss at ``theta + h v_p`` and ``theta - h v_p``: 2P vectors in a space that P + 1
vectors span. Any *linear* image of the parameters therefore needs to be computed on the P + 1 basis rows only, and is
combined afterwards: the widest matrix products of a step are halved. Non-linear operations take the combined values.
The loss that comes out is the loss at exactly those 2P points; only the order of rounding differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Points:
    """``R`` parameter vectors.

    Without ``scales`` the points are the basis rows themselves. With them, row 0 of the basis is ``theta`` and the
    others are directions: the points are ``theta`` (if ``with_base``), then ``theta + c v_p`` for every ``p``, for each
    ``c`` in turn.

    Attributes:
        basis: Shape ``(S, d)``.
        scales: Multiples ``c`` of the directions, shape ``(num_scales,)``; None = the basis rows are the points.
        with_base: Whether ``theta`` itself is the first point.
    """

    basis: Tensor
    scales: Tensor | None = None
    with_base: bool = False

    @classmethod
    def around(cls, basis: Tensor, scales: tuple[float, ...], *, with_base: bool = False) -> Points:
        """The points of a finite difference: theta is row 0 of the basis, directions are the others."""
        points = cls(basis, torch.tensor(scales), with_base)
        # A single direction gives as many points as basis rows: nothing is saved, so combine once and for all.
        return cls(points.expanded()) if len(basis) == 2 else points

    @property
    def num_points(self) -> int:
        """How many parameter vectors these are, R."""
        rows = self.basis.shape[0]
        return rows if self.scales is None else (rows - 1) * len(self.scales) + self.with_base

    def expand(self, image: Tensor) -> Tensor:
        """Combine a linear image of the basis into its values at the points.

        Args:
            image: Shape ``(S, ...)``, linear in the basis rows.

        Returns:
            Shape ``(R, ...)``; ``image`` itself when the basis rows are the points.
        """
        if self.scales is None:
            return image
        factors = self.scales.view(-1, *[1] * image.dim())
        moved = torch.addcmul(image[:1], factors, image[1:].unsqueeze(0)).flatten(0, 1)
        return torch.cat([image[:1], moved]) if self.with_base else moved

    def expanded(self) -> Tensor:
        """The points as plain vectors, shape ``(R, d)``."""
        return self.expand(self.basis)
