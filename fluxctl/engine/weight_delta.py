"""Weights relative to weights that the receiver has: exact, and shorter the less has changed.

Adding a difference would round, and server and client would drift apart. So a delta is the exclusive or of the two bit
patterns: where a step is small against a weight, sign, exponent and the first bits of the mantissa agree, and the
highest bytes are zero. Each element is sent as the number of its lower bytes that differ, four bits, and these bytes.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.engine.payload import PayloadError, Vector

_HEAD: Final = struct.Struct("<qq")  # version that the receiver has, number of elements
_LIMITS: Final = (0, 0xFF, 0xFFFF, 0xFFFFFF)  # an element above the k-th of them needs more than k bytes
_PLACES: Final = np.arange(4, dtype=np.uint8)


def pack_delta(old: Vector, new: Vector, base_version: int) -> bytes:
    """Describe ``new`` to somebody who has ``old``, both of shape ``(d,)``.

    Args:
        old: Weights of the version that the receiver has.
        new: Weights that it shall have.
        base_version: The version of ``old``.
    """
    differing = old.view(np.uint32) ^ new.view(np.uint32)
    sizes = np.zeros(old.size, dtype=np.uint8)
    for limit in _LIMITS:
        sizes += differing > limit
    low_bytes = differing.astype("<u4").view(np.uint8).reshape(-1, 4)[_sent(sizes)]
    padded = np.append(sizes, np.zeros(sizes.size % 2, dtype=np.uint8))
    return b"".join(
        [_HEAD.pack(base_version, old.size), (padded[::2] | padded[1::2] << 4).tobytes(), low_bytes.tobytes()]
    )


def base_version_of(body: bytes) -> int:
    """The version that a delta is relative to.

    Raises:
        PayloadError: If the bytes are no delta.
    """
    if len(body) < _HEAD.size:
        raise PayloadError(f"{len(body)} bytes are too short for a delta")
    return int(_HEAD.unpack_from(body)[0])


def apply_delta(body: bytes, old: Vector) -> Vector:
    """What :func:`pack_delta` described, bit for bit; a new vector.

    Raises:
        PayloadError: If the bytes are not one delta on weights like ``old``.
    """
    base_version_of(body)
    num = _HEAD.unpack_from(body)[1]
    if num != old.size:
        raise PayloadError(f"a delta of {num} elements does not fit {old.size} weights")
    start = _HEAD.size + (num + 1) // 2
    pairs = np.frombuffer(body[_HEAD.size : start], dtype=np.uint8)
    sizes = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)
    if len(pairs) != (num + 1) // 2 or (sizes > 4).any() or sizes[num:].any():
        raise PayloadError("a delta's element sizes are not all there, or above 4")
    low_bytes = np.frombuffer(body[start:], dtype=np.uint8)
    if low_bytes.size != int(sizes.sum()):
        raise PayloadError(f"a delta carries {low_bytes.size} bytes, and its elements need {int(sizes.sum())}")
    differing = np.zeros((num, 4), dtype=np.uint8)
    differing[_sent(sizes[:num])] = low_bytes
    new: Vector = (old.view(np.uint32) ^ differing.view("<u4").reshape(-1)).view(np.float32)
    return new


def _sent(sizes: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which bytes of each element travel, lowest first, shape ``(d, 4)``."""
    return np.asarray(sizes[:, None] > _PLACES)
