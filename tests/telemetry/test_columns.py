"""Columns of event files against a brute-force reading of the same lines."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.telemetry import columns as columns_module
from fluxctl.telemetry.builders import BATCH
from fluxctl.telemetry.columns import MISSING_INT, AbsentField, Kind, Labels, Ragged, read_columns

HEADER = {"event": "header", "schema_version": 1}
WANTED = {
    "a": {
        "i": Kind.INT,
        "f": Kind.FLOAT,
        "l": Kind.LABEL,
        "fs": Kind.FLOATS,
        "is": Kind.INTS,
        "wall.f": Kind.FLOAT,
        "wall.deep.i": Kind.INT,
        "list[].f": Kind.FLOATS,
        "never": Kind.INT,
    },
    "b": {"i": Kind.INT},
    "none": {"i": Kind.INT},
}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), st.dictionaries(st.text(max_size=2), SCALARS, max_size=2))


def some(fields):
    """Objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


WALLS = st.one_of(SCALARS, some({"f": VALUES, "deep": st.one_of(SCALARS, some({"i": VALUES}))}))
ITEMS = st.one_of(SCALARS, st.lists(st.one_of(SCALARS, some({"f": SCALARS})), max_size=3))
FIELDS = some({**dict.fromkeys(("i", "f", "l", "fs", "is"), VALUES), "wall": WALLS, "list": ITEMS})
EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "run_meta", "verdict", 'odd"\\']), st.integers(0, 2**62), FIELDS),
    max_size=12,
)


def write(path, events, *, torn="", key_first=True):
    lines = [json.dumps(HEADER)]
    for name, t_ns, fields in events:
        event = {"event": name, "t_ns": t_ns, **fields} if key_first else {"t_ns": t_ns, **fields, "event": name}
        lines.append(json.dumps(event, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n" + torn)
    return path


def brute(event, path):
    """The value at a path, by the words of `read_columns`."""
    head, _, rest = path.partition(".")
    if head.endswith("[]"):
        items = event.get(head[:-2])
        return [item.get(rest) for item in items if isinstance(item, dict)] if isinstance(items, list) else None
    value = event.get(head)
    if not rest:
        return value
    return brute(value, rest) if isinstance(value, dict) else None


def as_float(value):
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan


def as_int(value):
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        value = int(value)
    return int(value) if isinstance(value, int) and -(2**63) <= value < 2**63 else MISSING_INT


def plain(column):
    if isinstance(column, Labels):
        return [None if code < 0 else column.names[code] for code in column.codes]
    if isinstance(column, Ragged):
        return [column[row].tolist() for row in range(len(column))]
    return column.tolist()


def expected(kind, value):
    if kind is Kind.LABEL:
        return None if value is None else str(value)
    if kind in (Kind.FLOATS, Kind.INTS):
        convert = as_float if kind is Kind.FLOATS else as_int
        return [convert(item) for item in value] if isinstance(value, list) else []
    return as_float(value) if kind is Kind.FLOAT else as_int(value)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("columns") / "events.jsonl"


@given(
    events=EVENTS,
    key_first=st.booleans(),
    block=st.sampled_from([1, 7, 64, 1 << 20]),
    batch=st.sampled_from([1, 3, BATCH]),
)
def test_every_column_equals_a_brute_force_reading(scratch, events, key_first, block, batch) -> None:
    write(scratch, events, key_first=key_first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BLOCK_BYTES", block)
        patch.setattr("fluxctl.telemetry.builders.BATCH", batch)
        found = read_columns(scratch, WANTED)
    lines = [json.loads(line) for line in scratch.read_text().splitlines()[1:]]
    assert found.problems == ()
    assert found.last_ns == (lines[-1]["t_ns"] if lines else 0)
    assert dict(found.counts) == {name: sum(line["event"] == name for line in lines) for name, _, _ in events}
    for event, fields in WANTED.items():
        rows = [line for line in lines if line["event"] == event]
        table = found[event]
        assert len(table) == len(rows)
        for path, kind in fields.items():
            values = [brute(row, path) for row in rows]
            present = sum(value is not None for value in values)
            assert table.num_present[path] == present
            assert (path in table) == (present > 0)
            if present:
                np.testing.assert_equal(plain(table.columns[path]), [expected(kind, value) for value in values])
    for single, name in ((found.meta, "run_meta"), (found.verdict, "verdict")):
        assert single == next((line for line in reversed(lines) if line["event"] == name), {})


def test_batches_join_without_a_seam(scratch) -> None:
    num = 2 * BATCH + 5
    rows = [("a", n, {"i": n, "f": n / 2, "fs": [n] * (n % 3), "l": f"w{n % 7}"}) for n in range(num)]
    table = read_columns(write(scratch, rows), WANTED)["a"]
    assert table.ints("i").tolist() == list(range(num))
    assert table.numbers("f").tolist() == [n / 2 for n in range(num)]
    assert table.lists("fs").lengths.tolist() == [n % 3 for n in range(num)]
    assert table.labels("l").equals("w3").sum() == len(range(3, num, 7))
    assert not table.labels("l").equals("no such word").any()


def test_an_absent_field_is_no_column_and_is_named(scratch) -> None:
    table = read_columns(write(scratch, [("a", 0, {"i": 1, "f": None}), ("a", 1, {})]), WANTED)["a"]
    for read, path in ((table.numbers, "f"), (table.ints, "never"), (table.labels, "l"), (table.lists, "list[].f")):
        with pytest.raises(AbsentField) as caught:
            read(path)
        assert caught.value.path == f"a.{path}"
    assert (table.density("i"), table.density("f"), table.density("unheard of")) == (0.5, 0.0, 0.0)
    assert table.ints("i").tolist() == [1, MISSING_INT]
    np.testing.assert_equal(table.numbers("i"), [1.0, math.nan])
    assert read_columns(scratch, WANTED)["none"].density("i") == 0.0


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40, 1e17, 0.5, "7"])
def test_what_is_no_integer_of_64_bits_is_missing(scratch, number) -> None:
    table = read_columns(write(scratch, [("a", 0, {"i": number, "is": [number, 1]})]), WANTED)["a"]
    assert table.ints("i").tolist() == [MISSING_INT]
    assert table.lists("is")[0].tolist() == [MISSING_INT, 1]
    assert table.density("i") == 1.0


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_nan_tokens_count_as_null_and_are_reported(tmp_path, token) -> None:
    path = write(tmp_path / "e", [("a", 1, {"f": 1.0})])
    with path.open("a") as file:
        file.write(f'{{"event":"a","t_ns":2,"f":{token},"fs":[1,{token}]}}\n')
    found = read_columns(path, WANTED)
    np.testing.assert_equal(found["a"].numbers("f"), [1.0, math.nan])
    assert found["a"].num_present["f"] == 1
    np.testing.assert_equal(found["a"].lists("fs")[1], [1.0, math.nan])
    assert [(problem.line, "2 NaN" in problem.message) for problem in found.problems] == [(3, True)]


@pytest.mark.parametrize("torn", ['{"event":"a","i":', '{"event":"c","i":', "{", '{"event":"', "\xff\xfe"])
def test_a_torn_last_line_is_left_out_and_reported(tmp_path, torn) -> None:
    path = write(tmp_path / "e", [("a", 1, {"i": 1}), ("c", 5, {})], torn=torn)
    found = read_columns(path, WANTED)
    assert (len(found["a"]), dict(found.counts), found.last_ns) == (1, {"a": 1, "c": 1}, 5)
    assert [(problem.line, "torn" in problem.message) for problem in found.problems] == [(4, True)]


def test_a_last_line_without_a_line_break_counts_if_it_is_whole(tmp_path) -> None:
    path = write(tmp_path / "e", [("a", 1, {"i": 1})], torn='{"event":"c","t_ns":9}')
    found = read_columns(path, WANTED)
    assert (dict(found.counts), found.last_ns, found.problems) == ({"a": 1, "c": 1}, 9, ())


@pytest.mark.parametrize("line", ["[]", "7", "no json", '{"event":"a}', '{"event":"a"', "[" * 100_000])
def test_damaged_lines_cost_themselves_only(tmp_path, line) -> None:
    path = tmp_path / "e"
    path.write_text("\n".join([json.dumps(HEADER), '{"event":"a","i":1}', line, "", '{"event":"a","i":2}']) + "\n")
    found = read_columns(path, WANTED)
    assert found["a"].ints("i").tolist() == [1, 2]
    assert [problem.line for problem in found.problems] == [3]


def test_an_overlong_line_is_skipped_without_being_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(columns_module, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(columns_module, "_BLOCK_BYTES", 30)
    path = write(tmp_path / "e", [("a", 1, {"i": 1}), ("a", 2, {"l": "x" * 500}), ("a", 3, {"i": 3})])
    found = read_columns(path, WANTED)
    assert found["a"].ints("i").tolist() == [1, 3]
    assert [(problem.line, "longer" in problem.message) for problem in found.problems] == [(3, True)]


def test_files_that_are_no_event_files_are_refused(tmp_path) -> None:
    with pytest.raises(NothingToDoError, match="no such"):
        read_columns(tmp_path / "absent", WANTED)
    for content, kind in (("", NothingToDoError), ('{"event":"a"}\n', ConfigError)):
        (tmp_path / "e").write_text(content)
        with pytest.raises(kind):
            read_columns(tmp_path / "e", WANTED)
