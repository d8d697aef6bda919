"""Reading whatever is there: torn lines, NaN tokens of other writers, damage in the middle, files of another kind."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.telemetry import reader
from fluxctl.telemetry.reader import Problem, read_events, read_header, read_lines

HEADER = b'{"event":"header","schema_version":1,"identity":{}}\n'


def read(path, content):
    path.write_bytes(content)
    problems = []
    return list(read_events(path, problems)), problems


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def test_a_file_cut_at_any_byte_gives_the_events_before_the_cut(path):
    """Pitfall: a torn last line made readers drop the rest of the file, or the file."""
    events = [{"event": "agg_eval", "t_ns": t, "name": "é" * t, "x": [t, 0.5]} for t in range(4)]
    content = HEADER + b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)
    ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(HEADER), len(content) + 1):
        found, problems = read(path, content[:cut])
        # A complete object is taken even if only its newline is missing.
        num_whole = sum(end - 1 <= cut for end in ends) - 1
        assert found == events[:num_whole]
        is_torn = cut not in ends and cut + 1 not in ends
        assert problems == ([Problem(num_whole + 2, "torn last line, ignored")] if is_torn else [])


LINES = st.sampled_from(
    [
        b'{"event":"agg_eval","t_ns":1}',
        b'  {"event":"x", "a": [1, {"b": null}]} ',
        b'{"event":"a","x":NaN}',
        b'{"event":"a","x":[Infinity,-Infinity]}',
        b"{",
        b"[1]",
        b"3",
        b"\xff\xfe",
        b"",
        b"   ",
        b'{"event":"a"}{"event":"b"}',
        b"[" * 100_000,
    ]
)


def naive(raw):
    """The event, a problem, or nothing at all."""
    if not raw.strip():
        return None, None
    num_tokens = sum(raw.count(token) for token in (b"NaN", b"Infinity"))
    for token in (b"-Infinity", b"Infinity", b"NaN"):
        raw = raw.replace(token, b"null")
    try:
        value = json.loads(raw.decode())
    except (ValueError, RecursionError):
        return None, "not a JSON object"
    if not isinstance(value, dict):
        return None, "not a JSON object"
    return value, f"{num_tokens} NaN or infinite numbers read as null" if num_tokens else None


@settings(deadline=None)
@given(st.lists(LINES, max_size=12))
def test_damage_costs_the_damaged_line_only(tmp_path_factory, raws):
    """Against brute force, line by line."""
    path = tmp_path_factory.mktemp("run") / "events.jsonl"
    found, problems = read(path, HEADER + b"".join(raw + b"\n" for raw in raws))
    outcomes = [(number, *naive(raw)) for number, raw in enumerate(raws, start=2)]
    assert found == [value for _, value, _ in outcomes if value is not None]
    assert problems == [Problem(number, message) for number, _, message in outcomes if message is not None]


def test_problems_need_not_be_asked_for(path):
    path.write_bytes(HEADER + b"{\n")
    assert list(read_events(path)) == []


def test_memory_is_bounded_by_the_longest_allowed_line(path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 64)
    long_line = b'{"event":"' + b"x" * 500 + b'"}\n'
    found, problems = read(path, HEADER + long_line + b'{"event":"a"}\n' + long_line[:-1])
    assert found == [{"event": "a"}]
    assert problems == [Problem(2, "longer than 64 bytes, skipped"), Problem(4, "longer than 64 bytes, skipped")]


def test_reading_is_lazy(path):
    path.write_bytes(HEADER + b'{"event":"a"}\n{"event":"b"}\n')
    events = read_events(path)
    assert next(events) == {"event": "a"}
    with path.open("ab") as file:
        file.write(b'{"event":"c"}\n' * 100_000)
    assert sum(1 for _ in events) == 100_001


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", NothingToDoError, "empty"),
        (b"\n\n", NothingToDoError, "empty"),
        (b'{"event":"agg_eval"}\n', ConfigError, "does not begin with a header"),
        (b'{"event":"header","schema_version":99}\n', ConfigError, "schema version 99, this fluxctl reads version 1"),
        (b'{"event":"header"}\n', ConfigError, "schema version None"),
    ],
)
def test_files_that_are_no_event_stream_are_named(path, content, error, message):
    path.write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        list(read_events(path))
    assert str(path) in caught.value.where
    with pytest.raises(error, match=message):
        read_header(path)


def test_an_absent_file_is_nothing_to_do(path):
    with pytest.raises(NothingToDoError, match="no such event file"):
        list(read_events(path))


def test_header_is_returned(path):
    path.write_bytes(HEADER)
    assert read_header(path) == {"event": "header", "schema_version": 1, "identity": {}}


def test_wall_notes_have_no_header(path):
    path.write_bytes(b'{"event":"progress"}\n\n{"event":"overrun"}\n')
    assert list(read_lines(path)) == [(1, {"event": "progress"}), (3, {"event": "overrun"})]
