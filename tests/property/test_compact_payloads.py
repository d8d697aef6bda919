"""Compact messages: a delta gives back every bit, a described update is what its client computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fluxctl.config.model import StepConfig
from fluxctl.engine.payload import Payload, PayloadError, decode, encode
from fluxctl.engine.seed_scalar import SeedScalar, checksum_of, seed_scalar_bytes, unpack_seed_scalar
from fluxctl.engine.weight_delta import apply_delta, base_version_of, pack_delta
from fluxctl.learn.rebuild import rebuild
from fluxctl.types import PayloadKind
from fluxctl.world.seeds import Stream, stream

FLOATS = st.floats(width=32)  # nan, infinities and both zeros included


@st.composite
def weights(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(0, 33))
    old = draw(arrays(np.float32, size, elements=FLOATS))
    new = np.where(draw(arrays(np.bool_, size)), old, draw(arrays(np.float32, size, elements=FLOATS)))
    return old, new.astype(np.float32)


@pytest.mark.feature("B5", "B22")
@given(weights(), st.integers(0, 2**62))
@settings(max_examples=200)
def test_a_delta_gives_back_every_bit(pair: tuple[np.ndarray, np.ndarray], version: int) -> None:
    old, new = pair
    data = encode(Payload(PayloadKind.DELTA, 5, 4, 3, body=pack_delta(old, new, version)))
    body = decode(data).body
    assert base_version_of(body) == version
    assert apply_delta(body, old).tobytes() == new.tobytes()
    changed = int(np.sum(old.view(np.uint32) != new.view(np.uint32)))
    assert len(body) <= 16 + (old.size + 1) // 2 + 4 * changed


@pytest.mark.feature("B5")
def test_a_small_step_is_a_shorter_message_than_the_weights() -> None:
    """Steps of 1e-4 on weights of 0.02: sign and exponent mostly agree, so a byte in four stays at home."""
    source = stream(1, "init")
    old = source.normals(10_000) * np.float32(0.02)
    new = old + source.normals(10_000, 1) * np.float32(1e-4)
    assert 0.6 < len(pack_delta(old, new, 0)) / old.nbytes < 0.95
    assert len(pack_delta(old, old, 0)) == 16 + 5_000


@given(weights(), st.data())
@settings(max_examples=100)
def test_a_damaged_delta_is_refused(pair: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    old, new = pair
    body = pack_delta(old, new, 1)
    with pytest.raises(PayloadError):
        apply_delta(body[: data.draw(st.integers(0, len(body) - 1))], old)
    with pytest.raises(PayloadError):
        apply_delta(body + b"\0", old)
    with pytest.raises(PayloadError):
        apply_delta(body, np.append(old, np.float32(1)))


KEYS = st.tuples(*[st.integers(0, 2**64 - 1)] * 2)


@pytest.mark.feature("B22")
@given(KEYS, st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats()), max_size=12), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_a_described_update_round_trips(key: tuple[int, int], terms: list[tuple[int, float]], checksum: int) -> None:
    described = SeedScalar(key, tuple(d for d, _ in terms), tuple(j for _, j in terms), checksum)
    body = decode(encode(Payload(PayloadKind.SEED_SCALAR, 1, 2, 3, (), 0.5, 4.0, 8, described.pack()))).body
    assert unpack_seed_scalar(body).pack() == described.pack() == body
    assert len(body) == seed_scalar_bytes(len(terms)) == 24 + 12 * len(terms)
    for wrong in (body[:-1], body + b"\0"):
        with pytest.raises(PayloadError):
            unpack_seed_scalar(wrong)


@pytest.mark.feature("B22")
def test_it_is_a_few_bytes_whatever_the_model() -> None:
    described = SeedScalar((1, 2), (7,), (0.25,), 0)
    assert len(encode(Payload(PayloadKind.SEED_SCALAR, 0, 0, 0, (), 1.0, 2.0, 8, described.pack()))) == 100


@pytest.mark.feature("B22")
@given(KEYS, st.integers(0, 9), st.floats(-100, 100, width=32), st.integers(1, 300))
@settings(max_examples=60)
def test_one_direction_is_drawn_again_bit_for_bit(key: tuple[int, int], draw: int, jvp: float, size: int) -> None:
    step = StepConfig(perturbation="max_jvp", num_directions=10)
    rebuilt = rebuild(size, Stream(key), (draw,), (jvp,), step)
    expected = torch.from_numpy(Stream(key).normals(size, draw)) * jvp
    assert checksum_of(rebuilt.numpy()) == checksum_of(expected.numpy())
