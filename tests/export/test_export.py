"""Exports are read back and must hold what the event file holds."""

import csv
import json
import struct
import sys

import pyarrow.parquet as pq
import pytest
from tensorboardX.proto.event_pb2 import Event

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.export.csv import to_csv
from fluxctl.export.parquet import to_parquet
from fluxctl.export.tables import rows, schemas, value_at
from fluxctl.export.target import fresh_folder
from fluxctl.export.tensorboard import scalars, to_tensorboard
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import read_series


@pytest.fixture
def folder(recorded_runs):
    return list_runs(recorded_runs)[0].folder


def events_of(folder, kind):
    found = [json.loads(line) for line in folder.events.read_text().splitlines()[1:]]
    return [event for event in found if event["event"] == kind]


def test_csv_holds_every_event_and_value(folder, tmp_path):
    files = to_csv(folder.events, tmp_path / "out")
    assert {file.stem for file in files} == {table.event for table in schemas(folder.events)}
    for file in files:
        with file.open(newline="", encoding="utf-8") as lines:
            table = list(csv.DictReader(lines))
        events = events_of(folder, file.stem)
        assert len(table) == len(events)
        for row, event in zip(table, events, strict=True):
            for path, text in row.items():
                value = value_at(event, path)
                expected = (
                    "" if value is None else json.dumps(value) if isinstance(value, list | dict | bool) else str(value)
                )
                assert text == expected, (file.stem, path)


def test_parquet_holds_every_event_and_value(folder, tmp_path):
    for file in to_parquet(folder.events, tmp_path / "out"):
        table = pq.read_table(file).to_pylist()
        events = events_of(folder, file.stem)
        assert len(table) == len(events)
        for row, event in zip(table, events, strict=True):
            for path, found in row.items():
                value = value_at(event, path)
                told = json.loads(found) if isinstance(value, list | dict) else found
                assert told == value, (file.stem, path)
    rounds = pq.read_schema(tmp_path / "out" / "agg_round.parquet")
    kinds = {name: str(rounds.field(name).type) for name in ("t_ns", "version", "var", "var_good", "commit_reason")}
    assert kinds == {
        "t_ns": "int64",
        "version": "int64",
        "var": "double",
        "var_good": "bool",
        "commit_reason": "string",
    }


def read_records(path):
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[12 + length + 4 :]


def test_tensorboard_holds_the_curves_over_engine_time(folder, tmp_path):
    (file,) = to_tensorboard(folder.events, tmp_path / "out")
    first, *points = read_records(file)
    assert first.file_version == "brain.Event:2"
    series = read_series(folder.path)
    told = [(round(p.wall_time - first.wall_time, 4), p.step, p.summary.value[0].tag) for p in points]
    assert told == [(round(at, 4), step, tag) for at, step, tag, _ in scalars(series)]
    accuracy = [p.summary.value[0].simple_value for p in points if p.summary.value[0].tag == "evaluation/accuracy"]
    assert accuracy == pytest.approx(series.evaluations.accuracy.tolist())
    (again,) = to_tensorboard(folder.events, tmp_path / "again")
    assert (again.name, again.read_bytes()) == (file.name, file.read_bytes())


@pytest.mark.parametrize("write", [to_csv, to_parquet, to_tensorboard])
def test_an_export_replaces_an_export_and_nothing_else(folder, tmp_path, write):
    target = tmp_path / "out"
    write(folder.events, target)
    (target / "old.csv").write_text("x")
    write(folder.events, target)
    assert not (target / "old.csv").exists()
    other = tmp_path / "mine"
    other.mkdir()
    (other / "precious.txt").write_text("x")
    with pytest.raises(ConfigError, match="no export of ours"):
        write(folder.events, other)
    assert [path.name for path in other.iterdir()] == ["precious.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_a_failed_export_leaves_the_old_one(tmp_path):
    target = tmp_path / "out"
    with fresh_folder(target) as scratch:
        (scratch / "a.csv").write_text("1")
    with pytest.raises(RuntimeError, match="stop"), fresh_folder(target):
        raise RuntimeError("stop")
    assert (target / "a.csv").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("write", "module", "extra"), [(to_parquet, "pyarrow", "parquet"), (to_tensorboard, "tensorboardX", "tensorboard")]
)
def test_a_missing_library_is_named_with_its_extra(folder, tmp_path, monkeypatch, write, module, extra):
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"needs {module}, which is not installed") as caught:
        write(folder.events, tmp_path / "out")
    assert caught.value.hint == f"pip install 'fluxctl[{extra}]'"
    assert not (tmp_path / "out").exists()


def test_odd_events_do_not_name_files_and_mixed_kinds_are_text(tmp_path):
    events = tmp_path / "events.jsonl"
    lines = [
        {"event": "header", "schema_version": 1},
        {"event": "../../evil", "t_ns": 1},
        {"event": "odd", "t_ns": 1, "a": 1, "b": 1, "c": None, "d": 1.5, "e": 'é,\n"', "wall": {"v": {"x.y": 2}}},
        {"event": "odd", "t_ns": 2, "a": "one", "b": None, "c": None, "d": 2, "e": ""},
    ]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event":"odd","t')
    assert [table.event for table in schemas(events)] == ["odd"]
    assert len(list(rows(events, schemas(events)))) == 2
    (file,) = to_parquet(events, tmp_path / "p")
    assert pq.read_table(file).to_pylist() == [
        {"t_ns": 1, "a": "1", "b": 1, "c": None, "d": 1.5, "e": 'é,\n"', "wall.v.x.y": 2},
        {"t_ns": 2, "a": "one", "b": None, "c": None, "d": 2.0, "e": "", "wall.v.x.y": None},
    ]
    (file,) = to_csv(events, tmp_path / "c")
    with file.open(newline="", encoding="utf-8") as text:
        assert list(csv.DictReader(text))[0]["e"] == 'é,\n"'


def test_no_events_is_nothing_to_do(tmp_path):
    for write in (to_csv, to_parquet, to_tensorboard):
        with pytest.raises(NothingToDoError):
            write(tmp_path / "events.jsonl", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
