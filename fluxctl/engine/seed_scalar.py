"""An update as a few bytes: the name of its random directions, and the derivatives along them.

The receiver draws the directions again and combines them as the client did. That needs a generator that gives the same
numbers everywhere, which :mod:`fluxctl.world.seeds` is; a checksum of the client's result goes along, so that a device
on which it does not is found out.

Source:
    Qin et al., Federated Full-Parameter Tuning of Billion-Sized Language Models with Communication Cost under 18
    Kilobytes, ICML 2024, arXiv:2312.06353 (FedKSeed); Li et al., Achieving Dimension-Free Communication in Federated
    Learning via Zeroth-Order Optimization, ICLR 2025, arXiv:2405.15861 (DeComFL).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from fluxctl.engine.payload import PayloadError, Vector

_HEAD: Final = struct.Struct("<QQII")  # key of the stream, checksum, number of directions
_TERM: Final = struct.Struct("<Id")  # draw, derivative


@dataclass(frozen=True, slots=True)
class SeedScalar:
    """A described update.

    Attributes:
        key: Of the stream that the directions are drawn from, twice 64 bits.
        draws: Which of its draws they are.
        jvps: Derivative along each.
        checksum: CRC-32 of the update's float32 values.
    """

    key: tuple[int, int]
    draws: tuple[int, ...]
    jvps: tuple[float, ...]
    checksum: int

    def pack(self) -> bytes:
        """As bytes."""
        head = _HEAD.pack(*self.key, self.checksum, len(self.draws))
        return head + b"".join(_TERM.pack(*term) for term in zip(self.draws, self.jvps, strict=True))


def unpack_seed_scalar(body: bytes) -> SeedScalar:
    """Read it back.

    Raises:
        PayloadError: If the bytes are not exactly one.
    """
    if len(body) < _HEAD.size:
        raise PayloadError(f"{len(body)} bytes are too short for a described update")
    *key, checksum, num = _HEAD.unpack_from(body)
    if len(body) != seed_scalar_bytes(num):
        raise PayloadError(f"a described update of {num} directions has {len(body)} bytes")
    terms = list(_TERM.iter_unpack(body[_HEAD.size :]))
    return SeedScalar((key[0], key[1]), tuple(draw for draw, _ in terms), tuple(jvp for _, jvp in terms), checksum)


def seed_scalar_bytes(num_directions: int) -> int:
    """Size of a packed one."""
    return _HEAD.size + num_directions * _TERM.size


def checksum_of(gradient: Vector) -> int:
    """CRC-32 of a vector's bytes."""
    return zlib.crc32(gradient.astype("<f4", copy=False).tobytes())
