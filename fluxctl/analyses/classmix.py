"""Class mixes as numbers: how far a mix of labels is from the whole, and how many classes it really has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fluxctl.data.partition import Shards
from fluxctl.telemetry.columns import Floats, Ints


def mixes(counts: Ints | Floats) -> Floats:
    """Counts to shares.

    Args:
        counts: Samples of each class, shape ``(n, num_classes)``.

    Returns:
        Shares, shape ``(n, num_classes)``; nan in rows without a sample.
    """
    totals = counts.sum(axis=1, keepdims=True).astype(np.float64)
    shares = np.full(counts.shape, np.nan)
    np.divide(counts, totals, out=shares, where=totals > 0)
    return shares


def skew(counts: Ints | Floats, whole: Ints | Floats) -> Floats:
    """Total-variation distance of each row's mix from the whole's.

    Args:
        counts: Samples of each class, shape ``(n, num_classes)``.
        whole: Samples of each class in all, shape ``(num_classes,)``.

    Returns:
        Shape ``(n,)``: 0 = the same mix, towards 1 = nothing in common; nan in rows without a sample.
    """
    distance: Floats = np.abs(mixes(counts) - whole / whole.sum()).sum(axis=1) / 2
    return distance


def effective_classes(counts: Ints | Floats) -> Floats:
    """How many equally frequent classes would be as mixed: 1 over the sum of squared shares, shape ``(n,)``.

    Source:
        Simpson, Measurement of diversity, Nature 163, 1949.
    """
    effective: Floats = 1 / (mixes(counts) ** 2).sum(axis=1)
    return effective


def bin_counts(shards: Shards, labels: Ints, num_classes: int) -> dict[int, Ints]:
    """Class counts of the mini-batches of each client.

    Returns:
        By client, shape ``(num_bins(client), num_classes)``; without clients that own nothing.
    """
    return dict(_client_bins(shards, labels, num_classes))


def _client_bins(shards: Shards, labels: Ints, num_classes: int) -> Iterator[tuple[int, Ints]]:
    for client, samples in enumerate(shards.clients):
        num_bins = shards.num_bins(client)
        if not num_bins:
            continue
        counts = np.zeros((num_bins, num_classes), dtype=np.int64)
        np.add.at(counts, (np.arange(len(samples)) // shards.batch_size, labels[samples]), 1)
        yield client, counts


def rank_correlation(left: Floats, right: Floats) -> tuple[float | None, float | None, int]:
    """Spearman's rank correlation over the pairs that are both known.

    Returns:
        rho, its two-sided p-value, and the number of pairs; None where it is not defined.
    """
    known: NDArray[np.bool_] = np.isfinite(left) & np.isfinite(right)
    left, right = left[known], right[known]
    if len(left) < 4 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None, None, len(left)
    from scipy.stats import spearmanr  # half a second to import, and not everybody asks

    result = spearmanr(left, right)
    return float(result.statistic), float(result.pvalue), len(left)
