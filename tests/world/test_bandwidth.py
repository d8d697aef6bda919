"""Transfer times from bytes and a client's link."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.types import NS_PER_S
from fluxctl.world.bandwidth import BandwidthParams, Direction, build_bandwidth

DOWN, UP = Direction.DOWN, Direction.UP


def test_off_takes_no_time_for_any_message():
    links = build_bandwidth(BandwidthParams(), 0)
    assert links.transfer_ns(0, 10**12, DOWN) == 0
    assert links.bytes_per_s(0, UP) == math.inf


def test_constant_links_divide_bytes_by_bandwidth():
    """1.8 MB at 900 kB/s takes 2 s, at 450 kB/s 4 s; a third of a nanosecond counts as one."""
    links = build_bandwidth(BandwidthParams(model="constant", down_bytes_per_s=9e5, up_bytes_per_s=4.5e5), 0)
    assert links.transfer_ns(3, 1_800_000, DOWN) == 2 * NS_PER_S
    assert links.transfer_ns(3, 1_800_000, UP) == 4 * NS_PER_S
    assert build_bandwidth(BandwidthParams(model="constant", down_bytes_per_s=3e9), 0).transfer_ns(0, 1, DOWN) == 1


def test_lognormal_links_have_the_median_and_spread_that_were_asked_for():
    links = build_bandwidth(BandwidthParams(model="lognormal", down_bytes_per_s=1e6, log_sd=0.5), 0)
    logs = np.log([links.bytes_per_s(client, DOWN) for client in range(3000)])
    assert np.exp(np.median(logs)) == pytest.approx(1e6, rel=0.03)
    assert logs.std() == pytest.approx(0.5, abs=0.02)


def test_a_poor_link_is_poor_both_ways():
    params = BandwidthParams(model="lognormal", down_bytes_per_s=4e6, up_bytes_per_s=1e6)
    links = build_bandwidth(params, 0)
    for client in range(20):
        assert links.bytes_per_s(client, DOWN) == pytest.approx(4 * links.bytes_per_s(client, UP))


def test_a_link_depends_on_seed_and_client_alone():
    params = BandwidthParams(model="lognormal")
    forward, backward, other = (build_bandwidth(params, seed) for seed in (3, 3, 4))
    asked = {client: forward.transfer_ns(client, 10**6, UP) for client in range(50)}
    assert {client: backward.transfer_ns(client, 10**6, UP) for client in reversed(range(50))} == asked
    assert [other.transfer_ns(client, 10**6, UP) for client in range(50)] != list(asked.values())
    assert forward.transfer_ns(999_999, 10**6, UP) > 0
    assert len(forward._factors) == 51


@given(st.integers(0, 10**12), st.integers(0, 10**6), st.sampled_from([DOWN, UP]))
def test_transfers_are_integers_that_grow_with_the_message(num_bytes, more, direction):
    links = build_bandwidth(BandwidthParams(model="lognormal"), 0)
    shorter, longer = (links.transfer_ns(5, size, direction) for size in (num_bytes, num_bytes + more))
    assert isinstance(shorter, int)
    assert 0 <= shorter <= longer
    assert (shorter == 0) == (num_bytes == 0)
