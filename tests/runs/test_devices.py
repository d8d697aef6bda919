"""Devices: what is visible, and who goes where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError
from fluxctl.runs.devices import place, read_devices, visible_devices

pytestmark = pytest.mark.feature("E28")


@pytest.mark.parametrize(
    ("mask", "present", "expected"),
    [
        (None, 0, ()),
        (None, 2, ("cuda:0", "cuda:1")),
        ("", 2, ()),
        ("-1", 2, ()),
        ("1", 2, ("cuda:0",)),
        ("1,0", 2, ("cuda:0", "cuda:1")),
        ("0,5,1", 2, ("cuda:0",)),  # the driver stops at what it does not know
        ("0,1", 0, ()),  # pitfall: a mask on a host without any
        ("GPU-0a1b", 4, ("cuda:0",)),
    ],
)
def test_visible_devices(mask, present, expected):
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert visible_devices(environ, present) == expected


@given(num=st.integers(0, 50), devices=st.integers(0, 9))
def test_placement_is_round_robin_and_the_aggregator_sits_on_the_idlest(num, devices):
    placed = place(num, tuple(f"cuda:{index}" for index in range(devices)))
    counts = dict.fromkeys(placed.devices, 0)
    for trainer in range(num):
        counts[placed.device_of(trainer)] += 1
    assert tuple(counts.values()) == placed.trainers
    assert sum(placed.trainers) == num
    assert max(placed.trainers) - min(placed.trainers) <= 1
    assert counts[placed.aggregator] == min(placed.trainers)
    assert placed.is_even == (len(set(placed.trainers)) == 1)
    assert placed.num_idle == max(0, len(placed.devices) - num)
    assert list(placed.devices) == (["cpu"] if devices == 0 else [f"cuda:{index}" for index in range(devices)])


def test_placement_as_json():
    assert place(3, ("cuda:0", "cuda:1")).to_json() == {
        "schema_version": 1,
        "devices": ["cuda:0", "cuda:1"],
        "trainers": {"cuda:0": 2, "cuda:1": 1},
        "aggregator": "cuda:1",
    }


@pytest.mark.parametrize(("text", "num"), [("cpu", 0), ("0", 0), ("4", 4)])
def test_devices_are_a_number_or_cpu(text, num):
    assert read_devices(text) == num


@pytest.mark.parametrize("text", ["", "two", "-1", "1.5", "cuda:0"])
def test_other_words_are_refused(text):
    with pytest.raises(ConfigError, match="is not a number of devices"):
        read_devices(text)
