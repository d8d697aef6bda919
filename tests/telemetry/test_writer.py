"""The one ordered stream: order, completeness, RFC 8259 and the rules that the writer enforces."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.errors import ConfigError, InvariantError
from fluxctl.telemetry.events import EVENTS, order_of
from fluxctl.telemetry.reader import read_events
from fluxctl.telemetry.writer import EventWriter


def lines(folder, name="events.jsonl"):
    return (folder / name).read_text().splitlines()


@pytest.fixture
def writer(tmp_path):
    with EventWriter(tmp_path) as writer:
        writer.header({"id": "r"})
        yield writer


def test_writes_header_event_and_wall_part_exactly(tmp_path):
    with EventWriter(tmp_path) as writer:
        writer.header({"id": "run-1"}, num_clients=3)
        writer.emit(7, "dispatch", {"client": 2, "stagger_s": 0.5}, key=2, wall={"recv_s": 0.25})
        writer.emit(8, "agg_eval", {})
        writer.emit(9, "verdict", {}, wall={"wall_s": 1})
    assert (tmp_path / "events.jsonl").read_text() == (
        '{"event":"header","schema_version":1,"identity":{"id":"run-1"},"num_clients":3}\n'
        '{"event":"dispatch","t_ns":7,"client":2,"stagger_s":0.5,"wall":{"recv_s":0.25}}\n'
        '{"event":"agg_eval","t_ns":8}\n'
        '{"event":"verdict","t_ns":9,"wall":{"wall_s":1}}\n'
    )


EMISSIONS = st.tuples(
    st.integers(0, 6),  # t
    st.sampled_from(sorted(EVENTS)),
    st.sampled_from(["up", "down"]),
    st.integers(-1, 3),  # key
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(EMISSIONS, st.integers(0, 7)), max_size=40))
def test_any_order_of_emission_and_any_watermarks_give_the_sorted_stream(tmp_path_factory, actions):
    """Against brute force: sort everything at the end by (t, class, key, order of emission)."""
    folder = tmp_path_factory.mktemp("run")
    emitted, watermark = [], 0
    with EventWriter(folder) as writer:
        writer.header({})
        for action in actions:
            if isinstance(action, int):
                writer.advance(action)
                watermark = max(watermark, action)
                on_disk = [event["seq"] for event in read_events(folder / "events.jsonl")]
                expected = [entry[-1]["seq"] for entry in sorted(emitted) if entry[0] < watermark]
                assert on_disk == expected
                continue
            t, name, direction, key = action
            t = max(t, watermark)
            fields = {"seq": len(emitted), "direction": direction}
            writer.emit(t, name, fields, key=key)
            emitted.append((t, order_of(name, fields), key, len(emitted), fields))
    on_disk = [event["seq"] for event in read_events(folder / "events.jsonl")]
    assert on_disk == [entry[-1]["seq"] for entry in sorted(emitted)]


def test_advance_writes_only_what_lies_before_the_watermark(tmp_path, writer):
    for t in (5, 3, 4):
        writer.emit(t, "agg_eval", {"n": t})
    writer.advance(4)
    assert [json.loads(line)["t_ns"] for line in lines(tmp_path)[1:]] == [3]
    writer.advance(0)  # a lower watermark takes nothing back and allows nothing earlier
    with pytest.raises(InvariantError, match="before 4 ns is already written"):
        writer.emit(3, "agg_eval", {})
    writer.emit(4, "agg_eval", {"n": 9})
    writer.advance(6)
    assert [json.loads(line)["n"] for line in lines(tmp_path)[1:]] == [3, 4, 9, 5]


def test_an_event_is_a_snapshot_of_its_fields(tmp_path, writer):
    """A field that changes after the event, as a cadence does at a commit, must not change the event."""
    cadence = {"bin": 4, "ages": [1]}
    writer.emit(1, "agg_round", cadence)
    cadence["bin"] = 5
    cadence["ages"].append(2)
    writer.close()
    assert json.loads(lines(tmp_path)[1]) == {"event": "agg_round", "t_ns": 1, "bin": 4, "ages": [1]}


def test_nonfinite_numbers_become_null_and_are_named(tmp_path, writer):
    writer.emit(1, "agg_eval", {"test_loss": math.nan, "xs": [1.0, math.inf]}, wall={"eval_s": math.nan})
    writer.note("progress", {"sim_rate": math.inf})
    writer.close()
    forbidden = pytest.fail
    event = json.loads(lines(tmp_path)[1], parse_constant=forbidden)
    assert event == {
        "event": "agg_eval",
        "t_ns": 1,
        "test_loss": None,
        "xs": [1.0, None],
        "nonfinite": ["test_loss", "xs.1"],
        "wall": {"eval_s": None, "nonfinite": ["eval_s"]},
    }
    note = json.loads(lines(tmp_path, "wall.jsonl")[0], parse_constant=forbidden)
    assert note == {"event": "progress", "sim_rate": None, "nonfinite": ["sim_rate"]}


def test_notes_are_on_disk_at_once(tmp_path, writer):
    writer.note("overrun", {"client": 3})
    writer.note("tick")
    assert lines(tmp_path, "wall.jsonl") == ['{"event":"overrun","client":3}', '{"event":"tick"}']


def test_engine_time_of_ten_years_is_exact(tmp_path, writer):
    ten_years = 10 * 365 * 86_400 * 1_000_000_000
    for t in (ten_years + 1, ten_years):
        writer.emit(t, "agg_eval", {})
    writer.close()
    assert [json.loads(line)["t_ns"] for line in lines(tmp_path)[1:]] == [ten_years, ten_years + 1]


@pytest.mark.parametrize("field", ["event", "t_ns", "wall", "nonfinite"])
def test_reserved_fields_are_refused(writer, field):
    with pytest.raises(InvariantError, match=f"reserved fields: \\['{field}'\\]"):
        writer.emit(1, "agg_eval", {field: 1})


def test_unknown_events_are_refused(writer):
    with pytest.raises(InvariantError, match="'agg_evil' is not in the table"):
        writer.emit(1, "agg_evil", {})


def test_the_header_comes_first_and_once(tmp_path):
    with EventWriter(tmp_path) as writer:
        with pytest.raises(InvariantError, match="before the header"):
            writer.emit(1, "agg_eval", {})
        writer.header({})
        with pytest.raises(InvariantError, match="one header"):
            writer.header({})


def test_an_existing_stream_is_never_overwritten(tmp_path):
    EventWriter(tmp_path).close()
    (tmp_path / "events.jsonl").write_text("precious")
    with pytest.raises(ConfigError, match="already holds events"):
        EventWriter(tmp_path)
    assert (tmp_path / "events.jsonl").read_text() == "precious"


def test_closing_twice_is_harmless_and_an_error_in_the_block_loses_nothing(tmp_path):
    def broken_run():
        with EventWriter(tmp_path) as writer:
            writer.header({})
            writer.emit(9, "agg_eval", {})
            writer.close()
            raise RuntimeError("engine broke")

    with pytest.raises(RuntimeError, match="engine broke"):
        broken_run()
    assert len(lines(tmp_path)) == 2
