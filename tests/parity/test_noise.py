"""The noise floor is kept by configuration and grows with the pairs that were measured."""

from __future__ import annotations

import json

import pytest

from fluxctl.parity.ladder import climb
from fluxctl.parity.noise import add_noise, noise_file, read_noise
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Options
from fluxctl.types import Mode

pytestmark = pytest.mark.feature("D0i")
THROUGHPUT = [rung for rung in all_rungs() if rung.name == "throughput"]


def slower(factor):
    def edit(event):
        if event["event"] == "agg_round":
            event["wall"]["intrinsic_span_s"] *= factor
        return event

    return edit


def test_the_largest_difference_of_all_pairs_is_the_floor(tmp_path, pair) -> None:
    assert read_noise(tmp_path, "f") == {}
    for number, factor in enumerate((1.02, 1.04, 1.01)):
        ladder = climb(*pair(right=slower(factor), modes=(Mode.REAL, Mode.REAL)), Options(), THROUGHPUT)
        add_noise(tmp_path, "f", "fwdllm", ("a", f"b{number}"), ladder)
    assert read_noise(tmp_path, "f") == {"D11": pytest.approx(1 - 1 / 1.04, rel=0.01)}
    assert read_noise(tmp_path, "other") == {}


def test_a_pair_that_is_measured_again_replaces_itself(tmp_path, pair) -> None:
    for runs, factor in ((("a", "b"), 1.04), (("b", "a"), 1.01)):
        ladder = climb(*pair(right=slower(factor), modes=(Mode.REAL, Mode.REAL)), Options(), THROUGHPUT)
        add_noise(tmp_path, "f", "fwdllm", runs, ladder)
    assert read_noise(tmp_path, "f") == {"D11": pytest.approx(1 - 1 / 1.01, rel=0.01)}


DAMAGED = [
    *("", "[]", "{}", '{"schema_version":1,"floors":7}'),
    json.dumps({"schema_version": 9, "floors": {"f": {"pairs": {"a b": {"D1": 1}}}}}),
    *(json.dumps({"schema_version": 1, "floors": {"f": of}}) for of in (3, {}, {"pairs": [1]}, {"pairs": {"a": 1}})),
    json.dumps({"schema_version": 1, "floors": {"f": {"pairs": {"a b": {"D1": "x", "D2": True}}}}}),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_no_floor(tmp_path, content) -> None:
    noise_file(tmp_path).parent.mkdir()
    noise_file(tmp_path).write_text(content)
    assert read_noise(tmp_path, "f") == {}
