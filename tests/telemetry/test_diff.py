"""Where two event files part."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxctl.errors import NothingToDoError
from fluxctl.telemetry.diff import differing_paths, first_difference
from fluxctl.telemetry.events import SCHEMA_VERSION
from fluxctl.telemetry.hashing import canonical_hash

HEADER = {"event": "header", "schema_version": SCHEMA_VERSION, "identity": {"run": "a"}, "config_hash": "c"}


def write(path: Path, events: list[dict], **header: object) -> Path:
    lines = [json.dumps(event) + "\n" for event in ({**HEADER, **header}, *events)]
    path.write_text("".join(lines))
    return path


def event(number: int, **fields: object) -> dict:
    return {"event": "control", "t_ns": number, **fields}


@pytest.fixture
def files(tmp_path):
    def make(left, right, **header):
        return write(tmp_path / "a.jsonl", left), write(tmp_path / "b.jsonl", right, **header)

    return make


@pytest.mark.feature("D0j")
def test_the_first_difference_with_context_from_both_sides(files):
    left = [event(n, goal=n) for n in range(10)]
    right = [event(n, goal=n if n < 5 else -n) for n in range(10)]
    found = first_difference(*files(left, right), context=2)
    assert found is not None
    assert found.index == 6  # the header is 0, so event number 6 is the one at t = 5
    assert [e["t_ns"] for e in found.before] == [3, 4]
    assert [e["goal"] for e in found.left] == [5, 6, 7]
    assert [e["goal"] for e in found.right] == [-5, -6, -7]
    assert found.paths == ("goal",)


def test_wall_parts_and_identities_do_not_count(files):
    left, right = (
        [event(1, wall={"s": 1.0})],
        [
            event(1, wall={"s": 2.0}),
        ],
    )
    assert first_difference(*files(left, right, identity={"run": "b"})) is None


def test_the_header_counts(files):
    found = first_difference(*files([event(1)], [event(1)], config_hash="d"))
    assert found is not None
    assert (found.index, found.before, found.paths) == (0, (), ("config_hash",))


def test_a_file_that_ends_early(files):
    found = first_difference(*files([event(1), event(2)], [event(1)]))
    assert found is not None
    assert (found.index, found.paths, found.right) == (2, (), ())
    assert [e["t_ns"] for e in found.left] == [2]


def test_whole_and_real_numbers_differ_as_they_do_in_the_hash(files):
    found = first_difference(*files([event(1, goal=1)], [event(1, goal=1.0)]))
    assert found is not None
    assert found.paths == ("goal",)


def test_a_torn_last_line_is_left_out(tmp_path):
    whole, torn = write(tmp_path / "a", [event(1)]), write(tmp_path / "b", [event(1)])
    with torn.open("a") as file:
        file.write('{"event":"contr')
    assert first_difference(whole, torn) is None


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(NothingToDoError):
        first_difference(write(tmp_path / "a", []), tmp_path / "gone")


def test_files_are_read_in_step(files, monkeypatch):
    """Memory is bounded: beyond the context nothing is read after the difference."""
    taken = []
    from fluxctl.telemetry import diff

    read = diff.read_events

    def counting(path):
        for item in read(path):
            taken.append(item)
            yield item

    monkeypatch.setattr(diff, "read_events", counting)
    many = [event(n) for n in range(1000)]
    assert first_difference(*files(many, [event(0, goal=1), *many[1:]]), context=3) is not None
    assert len(taken) == 2 * (1 + 3)


@pytest.mark.parametrize(
    ("left", "right", "paths"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, ["a", "b", "c"]),
        ({"a": None}, {"a": {}}, ["a"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_paths_of_differing_fields(left, right, paths):
    assert list(differing_paths(left, right)) == paths


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=4,
)
EVENTS = st.lists(st.builds(lambda t, value: event(t, goal=value), st.integers(0, 2), JSONS), max_size=5)


@pytest.mark.feature("D0j")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, EVENTS, st.integers(0, 3))
def test_no_difference_means_one_hash_and_the_index_is_the_first(tmp_path, left, right, context):
    one, other = write(tmp_path / "a", left), write(tmp_path / "b", right)
    found = first_difference(one, other, context=context)
    assert (found is None) == (canonical_hash(one) == canonical_hash(other))
    if found is not None:
        spelled = [[json.dumps(e, sort_keys=True) for e in side] for side in (left, right)]
        first = next(n for n in range(max(map(len, spelled)) + 1) if spelled[0][n : n + 1] != spelled[1][n : n + 1])
        assert found.index == first + 1
        assert len(found.before) == min(context, found.index)
        mirrored = first_difference(other, one, context=context)
        assert mirrored is not None
        assert (mirrored.index, mirrored.left, mirrored.right) == (found.index, found.right, found.left)
        assert set(mirrored.paths) == set(found.paths)
