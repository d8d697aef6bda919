"""JSON that any reader accepts: finite numbers only, and the standard library's spelling of everything else."""

import json
import math
from enum import IntEnum, StrEnum
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.telemetry.encode import encode, replace_nonfinite


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_encodes_as_the_standard_library_does(value):
    assert encode(value) == json.dumps(value, separators=(",", ":"), allow_nan=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.float64(0.1), "0.1"),
        (np.bool_(True), "true"),
        (np.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({2, 1}, "[1,2]"),
        (frozenset({2, 1}), "[1,2]"),
        ((1, None), "[1,null]"),
        ("é\n", '"\\u00e9\\n"'),
    ],
)
def test_encodes_what_the_engine_holds(value, text):
    assert encode(value) == text


def test_refuses_what_has_no_json_form():
    with pytest.raises(TypeError, match="cannot hold a object"):
        encode(object())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], np.array([math.nan]), np.float32("inf")])
def test_refuses_numbers_that_json_lacks(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(value)


def test_replaces_and_names_every_nonfinite_number():
    value = {
        "loss": math.nan,
        "list": [1.0, math.inf, {"deep": -math.inf}],
        "array": np.array([1.0, math.nan]),
        "scalar": np.float32("nan"),
        "fine": [1, "x", None, True, Colour.RED, 2.5],
    }
    copy, paths = replace_nonfinite(value)
    assert copy == {
        "loss": None,
        "list": [1.0, None, {"deep": None}],
        "array": [1.0, None],
        "scalar": None,
        "fine": [1, "x", None, True, Colour.RED, 2.5],
    }
    assert paths == ["loss", "list.1", "list.2.deep", "array.1", "scalar"]
    assert encode(copy)
    assert math.isnan(value["loss"])  # the caller's object is left alone


@given(json_values)
def test_leaves_finite_objects_as_they_are(value):
    assert replace_nonfinite(value, "x") == (value, [])
