"""Mini-batches without padding.

From the last attention on, an encoder works on one token at a time, so the tokens of a mini-batch are kept one after
the other in a matrix ``(num_tokens, width)``. Pooling is a matrix product with a matrix of averages. Only attention
needs to see texts as rows; for it, two index vectors lead from packed to padded and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Padding:
    """How packed tokens become rows of equal length.

    Attributes:
        shape: ``(num_samples, longest)``.
        to_padded: Packed index of each padded slot, shape ``(num_samples * longest,)``; slots beyond a text point at
            token 0.
        to_packed: Padded slot of each packed token, shape ``(num_tokens,)``.
        bias: Added to attention scores, 0 for tokens and -inf beyond a text, shape ``(num_samples, 1, 1, longest)``.
    """

    shape: tuple[int, int]
    to_padded: Tensor
    to_packed: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class Packing:
    """Which packed token belongs to which text.

    Attributes:
        average: Row i averages the tokens of text i, shape ``(num_samples, num_tokens)``.
        padding: Only where an attention follows.
    """

    average: Tensor
    padding: Padding | None

    @classmethod
    def of(cls, lengths: Sequence[int], *, attention: bool, spare: int = 0) -> Packing:
        """Pack texts of the given lengths.

        Args:
            lengths: Tokens of each text, all at least 1.
            attention: Whether padded rows will be needed.
            spare: Rows behind the last token that belong to no text.
        """
        counts = torch.tensor(lengths, dtype=torch.int64)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        average = torch.zeros(len(lengths), len(owner) + spare)
        average[owner, torch.arange(len(owner))] = 1.0 / counts[owner].to(torch.float32)
        return cls(average, _padding(counts, owner) if attention else None)


def _padding(counts: Tensor, owner: Tensor) -> Padding:
    longest = int(counts.max())
    starts = torch.cumsum(counts, 0) - counts
    position = torch.arange(len(owner)) - starts[owner]
    to_packed = owner * longest + position
    to_padded = torch.zeros(len(counts) * longest, dtype=torch.int64)
    to_padded[to_packed] = torch.arange(len(owner))
    bias = torch.zeros(len(counts), 1, 1, longest)
    beyond = torch.arange(longest) >= counts[:, None]
    bias.masked_fill_(beyond[:, None, None, :], float("-inf"))
    return Padding((len(counts), longest), to_padded, to_packed, bias)
