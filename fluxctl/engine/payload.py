"""What travels between aggregator and clients, as bytes.

Sizes in telemetry are lengths of these encodings, never parameter counts times four. A message is a fixed header
(magic, kind, version, bin, iteration, length, number of vectors), the vectors as little-endian float32, and for what
clients send a fixed trailer of scalars. Decoding is zero-copy: the vectors are read-only views of the bytes. Compact
kinds have a body of their own instead of vectors, see ``weight_delta`` and ``seed_scalar``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.types import PayloadKind

Vector = npt.NDArray[np.float32]

_HEADER: Final = struct.Struct("<4sBBHqqqq")  # magic, kind, vectors, reserved, version, bin, iteration, length
_SCALARS: Final = struct.Struct("<ddq")  # loss, statistical utility, samples
_MAGIC: Final = b"FXP1"
_KINDS: Final = tuple(PayloadKind)
_NUM_VECTORS: Final = {
    PayloadKind.KEEP_GOING: 0,
    PayloadKind.WEIGHTS: 1,
    PayloadKind.WEIGHTS_AND_GRADIENT: 2,
    PayloadKind.GRADIENT: 1,
    PayloadKind.MEASUREMENT: 0,
    PayloadKind.DELTA: 0,
    PayloadKind.SEED_SCALAR: 0,
}
_FROM_CLIENTS: Final = frozenset({PayloadKind.GRADIENT, PayloadKind.MEASUREMENT, PayloadKind.SEED_SCALAR})
_COMPACT: Final = frozenset({PayloadKind.DELTA, PayloadKind.SEED_SCALAR})


class PayloadError(ValueError):
    """Bytes that are not a payload, or a truncated one."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A decoded message.

    Args:
        kind: What it carries.
        version: Model version that it belongs to.
        bin: Bin that it belongs to.
        iteration: Iteration within the bin.
        vectors: None, one or two vectors of shape ``(d,)``, float32.
        loss: Mini-batch loss in nats (from clients only).
        stat_utility: Statistical utility (from clients only).
        num_samples: Samples behind them (from clients only).
        body: What a compact kind carries.
    """

    kind: PayloadKind
    version: int
    bin: int
    iteration: int
    vectors: tuple[Vector, ...] = ()
    loss: float = 0.0
    stat_utility: float = 0.0
    num_samples: int = 0
    body: bytes = b""


def update_bytes(num_params: int) -> int:
    """Size of an encoded gradient of length ``num_params``."""
    return _HEADER.size + 4 * num_params + _SCALARS.size


def reply_bytes(body: int = 0) -> int:
    """Size of what a client sends besides vectors, with a body of that many bytes; a measurement has none."""
    return _HEADER.size + body + _SCALARS.size


def encode(payload: Payload) -> bytes:
    """Turn a message into the bytes that would travel."""
    length = payload.vectors[0].size if payload.vectors else len(payload.body)
    kind = _KINDS.index(payload.kind)
    header = _HEADER.pack(
        _MAGIC, kind, len(payload.vectors), 0, payload.version, payload.bin, payload.iteration, length
    )
    parts = [header, *(np.ascontiguousarray(vector, dtype="<f4").tobytes() for vector in payload.vectors), payload.body]
    if payload.kind in _FROM_CLIENTS:
        parts.append(_SCALARS.pack(payload.loss, payload.stat_utility, payload.num_samples))
    return b"".join(parts)


def decode(data: bytes) -> Payload:
    """Read a message back.

    Raises:
        PayloadError: If the bytes are not exactly one message.
    """
    if len(data) < _HEADER.size:
        raise PayloadError(f"{len(data)} bytes are too short for a payload header of {_HEADER.size}")
    magic, kind_index, num_vectors, _, version, bin_index, iteration, length = _HEADER.unpack_from(data)
    if magic != _MAGIC or kind_index >= len(_KINDS):
        raise PayloadError("not a fluxctl payload")
    kind = _KINDS[kind_index]
    if num_vectors != _NUM_VECTORS[kind] or length < 0:
        raise PayloadError(f"payload of kind {kind} claims {num_vectors} vectors of length {length}")
    body_end = _HEADER.size + (length if kind in _COMPACT else 4 * length * num_vectors)
    expected = body_end + (_SCALARS.size if kind in _FROM_CLIENTS else 0)
    if len(data) != expected:
        raise PayloadError(f"payload of {len(data)} bytes, expected {expected}")
    body = data[_HEADER.size : body_end] if kind in _COMPACT else b""
    flat = np.frombuffer(data, dtype="<f4", count=length * num_vectors, offset=_HEADER.size)
    vectors = tuple(flat[i * length : (i + 1) * length] for i in range(num_vectors))
    if kind not in _FROM_CLIENTS:
        return Payload(kind, version, bin_index, iteration, vectors, body=body)
    loss, stat_utility, num_samples = _SCALARS.unpack_from(data, body_end)
    return Payload(kind, version, bin_index, iteration, vectors, loss, stat_utility, num_samples, body)
