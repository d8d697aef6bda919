"""The end of the encoder, from the last block's adapter to the logits, without ever forming a token's vector.

With an adapter on the last block, a token's vector before the output norm is ``x = s + U' h``: a cached part ``s``
that all parameter vectors share, plus a combination of the ``r + 1`` rows of the up-projection. LayerNorm needs only
the mean and the norm of ``x``, and pooling only a weighted sum of it, and both follow from products with ``s`` and
``U`` alone:

* LayerNorm ignores a constant, so ``s`` and the rows of ``U`` are centred once and the mean of ``x`` is 0;
* ``|x|^2 = |s|^2 + 2 h' (U s) + h' (U U') h``;
* the pooled vector is ``sum_t w_t x_t / sigma_t = (w / sigma) s + ((w / sigma) h) U``.

``U s`` is linear in the parameters, so it is computed on the basis rows only. A pass then costs two tall matrix
products and one pooling product, and nothing of size ``R x num_tokens x width`` is written. The staged path in
``stages`` stays the reference; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.learn.packing import Packing
from fluxctl.learn.peft import Adapter, Head
from fluxctl.learn.points import Points
from fluxctl.learn.stages import Flow, OutputNorm, Pool, Stage


@dataclass(frozen=True)
class AdapterTail:
    """Adapter, output norm, pooling and head of the last block in closed form."""

    adapter: Adapter
    norm: OutputNorm
    pool: Pool
    head: Head

    @classmethod
    def match(cls, stages: Sequence[Stage]) -> AdapterTail | None:
        """The closed form of ``stages``, or None if they are not exactly those four."""
        match tuple(stages):
            case (Adapter() as adapter, OutputNorm() as norm, Pool() as pool, Head() as head):
                return cls(adapter, norm, pool, head)
            case _:
                return None

    def prepare(self, rows: Tensor) -> tuple[Flow, Tensor]:
        """Centre a mini-batch's features, once for all passes on it.

        Args:
            rows: Feed-forward outputs beside their sums with the residual, shape ``(num_tokens, 2 * width)``; changed
                in place.

        Returns:
            Feed-forward outputs and centred sums, views of ``rows``; and each token's ``|s|^2 / width + eps``.
        """
        branch, total = rows[:, : self.adapter.width], rows[:, self.adapter.width :]
        total.sub_(total.mean(dim=1, keepdim=True))
        return Flow(branch, total), total.square().mean(dim=1).add_(self.norm.eps)

    def logits(self, flow: Flow, variances: Tensor, points: Points, packing: Packing) -> Tensor:
        """Evaluate all points.

        Args:
            flow: Feed-forward outputs and centred sums, shape ``(num_tokens, width)`` each.
            variances: ``|s|^2 / width + eps`` of the centred sums, shape ``(num_tokens,)``.
            points: R parameter vectors.
            packing: Which token belongs to which text.

        Returns:
            Shape ``(R, num_samples, labels)``.
        """
        branch, total = flow
        if total is None:
            raise ValueError("the closed form starts at a feed-forward output")
        num_rows, width, dim, num_tokens = len(points.basis), self.adapter.width, self.adapter.dim, len(branch)

        weight, bias = self.adapter.down(points.basis)
        down = torch.mm(weight.reshape(-1, width), branch.t()).view(num_rows, dim, num_tokens)
        hidden = F.silu(points.expand(down.add_(bias.unsqueeze(2))))
        hidden = F.pad(hidden, (0, 0, 0, 1), value=1.0)  # a row of ones meets the up-projection's bias

        up = self.adapter.up(points.basis)
        up = up - up.mean(dim=2, keepdim=True)
        cross = points.expand(torch.mm(up.view(-1, width), total.t()).view(num_rows, dim + 1, num_tokens))
        up = points.expand(up)

        gram = torch.bmm(up, up.mT)
        extra = (torch.baddbmm(cross, gram, hidden, beta=2.0 / width, alpha=1.0 / width) * hidden).sum(dim=1)
        # Rounding must not turn a tiny variance negative; a nan passes through and ends the run as diverged.
        scale = extra.add_(variances).clamp_min_(self.norm.eps).rsqrt_()

        weights = packing.average * scale.unsqueeze(1)
        pooled = torch.mm(weights.view(-1, num_tokens), total).view(len(up), -1, width)
        pooled = torch.baddbmm(pooled, torch.bmm(weights, hidden.mT), up)
        pooled = torch.addcmul(self.norm.norm_bias, pooled, self.norm.norm_weight)
        pooled = F.layer_norm(pooled, (width,), eps=self.pool.eps)
        return self.head.apply(Flow(pooled), points, packing).value
