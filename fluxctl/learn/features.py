"""Cached features: what the frozen prefix hands to the suffix, one ragged row block per text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FeatureSet:
    """Features and labels of a set of texts.

    Attributes:
        values: Features of all texts, one after the other, shape ``(total_rows, width)``, float32.
        offsets: Text i owns rows ``offsets[i]`` to ``offsets[i + 1]``, shape ``(n + 1,)``, int64.
        labels: Class of each text, shape ``(n,)``, int64.
    """

    values: Tensor
    offsets: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.labels) + 1 or int(self.offsets[-1]) != len(self.values):
            raise ValueError(
                f"offsets {tuple(self.offsets.shape)}, labels {tuple(self.labels.shape)} and values "
                f"{tuple(self.values.shape)} do not belong together"
            )

    @classmethod
    def of(cls, features: Sequence[Tensor], labels: Sequence[int]) -> FeatureSet:
        """Join the features of single texts, shape ``(rows, width)`` each."""
        lengths = torch.tensor([0, *(len(rows) for rows in features)], dtype=torch.int64)
        return cls(torch.cat(list(features)), torch.cumsum(lengths, 0), torch.tensor(labels, dtype=torch.int64))

    @property
    def num_samples(self) -> int:
        """Number of texts."""
        return len(self.labels)

    def gather(self, samples: Sequence[int]) -> tuple[Tensor, list[int], Tensor]:
        """Copy the features of some texts.

        Args:
            samples: Indices of texts, at least one.

        Returns:
            Rows of shape ``(sum of lengths, width)`` that the caller owns, the lengths, and the labels.
        """
        chosen = torch.tensor(samples, dtype=torch.int64)
        starts, ends = self.offsets[chosen].tolist(), self.offsets[chosen + 1].tolist()
        rows = torch.cat([self.values[start:end] for start, end in zip(starts, ends, strict=True)])
        return rows, [end - start for start, end in zip(starts, ends, strict=True)], self.labels[chosen]
