"""Features of a frozen prefix: the one long computation before a run can start.

Each batch is computed on one core and batches are spread over threads, so cores stay busy and the numbers do not
depend on how many there are. Needs no clock: nothing has been dispatched yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fluxctl.data import Tokens
from fluxctl.learn.split import Prefix

Progress: TypeAlias = Callable[[str, int, int], None]

_TOKENS_PER_BATCH: Final = 1024  # enough to fill one core's matrix products, few enough for its cache
_POOLED: Final = "pooled"  # split point behind the pooling: one row per text


def featurise(prefix: Prefix, tokens: Tokens, num_workers: int, progress: Progress) -> tuple[Tensor, Tensor]:
    """Run the frozen prefix once over all texts.

    A batch holds texts of one length, so no text is padded and its features do not depend on its neighbours' lengths.
    Batches are fixed before they are handed to threads, each of which computes on one core: two such threads beat one
    that uses two cores.

    Args:
        prefix: The frozen part of the model.
        tokens: Token ids of all texts.
        num_workers: Threads; the result does not depend on it.
        progress: Called with tokens done and their number: time goes with tokens, not with texts.

    Returns:
        Values of all texts in their order, shape ``(total_rows, width)``, float32, and offsets ``(n + 1,)``, int64.
    """
    lengths = tokens.lengths()
    rows = np.ones_like(lengths) if prefix.split_point == _POOLED else lengths
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(rows)]).astype(np.int64))
    starts: list[int] = offsets.tolist()
    values = torch.empty(starts[-1], prefix.width)

    def encode(batch: list[int]) -> int:  # returns the number of tokens
        ids = torch.from_numpy(np.stack([tokens.ids[text] for text in batch]))
        features = prefix.encode(ids, torch.from_numpy(lengths[batch]))
        for text, feature in zip(batch, features, strict=True):
            values[starts[text] : starts[text + 1]] = feature
        return int(lengths[batch].sum())

    num_done, total = 0, int(lengths.sum())
    progress("featurise tokens", 0, total)
    with ThreadPoolExecutor(num_workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(encode, batch) for batch in _batches(lengths)]
        try:
            for future in as_completed(futures):
                num_done += future.result()
                progress("featurise tokens", num_done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return values, offsets


def _batches(lengths: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    """Cut texts into batches of one length, the longest first, so that no long batch is left for the end."""
    for length in sorted(set(lengths.tolist()), reverse=True):
        texts: list[int] = np.flatnonzero(lengths == length).tolist()
        size = max(1, _TOKENS_PER_BATCH // length)
        yield from (texts[start : start + size] for start in range(0, len(texts), size))


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
