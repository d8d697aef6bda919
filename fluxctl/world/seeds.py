"""Keyed randomness: every draw is a function of what it is for, never of when it is made.

A stream is named by (seed, purpose, client, model version, iteration, dispatch attempt); a draw within it by an
index. The name is hashed to a Philox key, so streams are independent, need no shared state, and a resumed or
re-ordered run draws the same numbers. Bin numbers repeat every round and are never part of a key.

Directions for forward gradients come from :meth:`Stream.normals`: 16 random bits index a table of 65,536 equiprobable
standard-normal quantiles. Integer operations and a table look-up give the same float32 on every machine, which a
transcendental function does not, and cost a fifth of a ziggurat (``docs/decisions/0003-keyed-normals.md``).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

_TABLE_SIZE: Final = 1 << 16
_ANY: Final = -1  # a key part that does not apply


@lru_cache(maxsize=1)
def normal_table() -> npt.NDArray[np.float32]:
    """Midpoint quantiles of N(0, 1), shape ``(65536,)``, float32, scaled to unit variance.

    The largest magnitude is 4.32; the mean is 0 by symmetry.
    """
    table = ndtri((np.arange(_TABLE_SIZE) + 0.5) / _TABLE_SIZE)
    table /= np.sqrt(np.mean(table**2))
    return np.asarray(table, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Stream:
    """A named source of random numbers.

    Args:
        key: 128 bits as two unsigned 64-bit integers.
    """

    key: tuple[int, int]

    def _philox(self, draw: int) -> np.random.Philox:
        # The top counter word numbers the draw: each draw is its own sequence of 2**192 blocks.
        return np.random.Philox(
            key=np.array(self.key, dtype=np.uint64), counter=np.array([0, 0, 0, draw], dtype=np.uint64)
        )

    def generator(self, draw: int = 0) -> np.random.Generator:
        """A fresh numpy generator at the start of draw ``draw``."""
        return np.random.Generator(self._philox(draw))

    def normals(self, count: int, draw: int = 0, out: npt.NDArray[np.float32] | None = None) -> npt.NDArray[np.float32]:
        """Draw ``count`` standard normals.

        Args:
            count: How many.
            draw: Which draw of this stream.
            out: Where to put them, shape ``(count,)``, float32, contiguous.

        Returns:
            Shape ``(count,)``, float32.
        """
        words = self._philox(draw).random_raw((count + 3) // 4).astype("<u8", copy=False)
        return normal_table().take(words.view("<u2")[:count], out=out, mode="clip")


def stream(
    seed: int, purpose: str, *, client: int = _ANY, version: int = _ANY, iteration: int = _ANY, attempt: int = _ANY
) -> Stream:
    """Name a stream.

    Args:
        seed: The run's seed, below 2**63.
        purpose: What the numbers are for, for example ``tangent`` or ``selection``.
        client: Client id, if the draw belongs to one.
        version: Model version, if the draw belongs to one.
        iteration: Iteration within the bin.
        attempt: How often this (client, version, iteration) was dispatched before.
    """
    name = struct.pack("<5q", seed, client, version, iteration, attempt) + purpose.encode()
    return Stream(struct.unpack("<2Q", hashlib.blake2b(name, digest_size=16).digest()))
