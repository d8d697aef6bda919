"""Which fields a file has, against counts by hand."""

import json

import pytest

from fluxctl.errors import NothingToDoError
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.events import EVENTS
from fluxctl.telemetry.manifest import read_manifest

HEADER = '{"event":"header","schema_version":1,"identity":{"mode":"real"}}\n'


def write(path, *lines):
    path.write_text(HEADER + "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_density_kinds_nulls_and_promises(tmp_path):
    path = write(
        tmp_path / "events.jsonl",
        {"event": "abandon", "t_ns": 1, "client": 3, "reason": None, "wall": {"x_s": 1.5, "deep": {"a": {"b": 1}}}},
        {"event": "abandon", "t_ns": 2, "client": 3.5, "reason": "silent", "more": [1]},
        {"event": "strange", "t_ns": 2, "a": True},
        "not json\n",
        '{"event":"abandon","t_n',
    )
    manifest = read_manifest(path)
    assert (manifest.mode, manifest.num_events, manifest.num_damaged) == ("real", {"abandon": 2, "strange": 1}, 2)
    uses = {(use.event, use.path): use for use in manifest.fields}
    client = uses["abandon", "client"]
    assert (client.kinds, client.density, client.is_promised, client.is_missing) == (("int", "float"), 1.0, True, False)
    reason = uses["abandon", "reason"]
    assert (reason.num_present, reason.num_null, reason.is_missing) == (1, 1, False)
    assert uses["abandon", "age_s"].is_missing
    assert uses["abandon", "age_s"].kinds == ()
    assert uses["abandon", "more"].density == 0.5
    assert not uses["abandon", "more"].is_promised
    assert uses["abandon", "wall.x_s"].kinds == ("float",)
    assert uses["abandon", "wall.deep.a"].kinds == ("object",)
    assert uses["strange", "a"].kinds == ("bool",)


@pytest.mark.feature("C18")
def test_a_real_run_keeps_every_promise_but_one(recorded_runs):
    folder = list_runs(recorded_runs)[0].folder
    manifest = read_manifest(folder.events)
    events = [json.loads(line) for line in folder.events.read_text().splitlines()[1:]]
    assert sum(manifest.num_events.values()) == len(events)
    assert list(manifest.num_events) == [name for name in EVENTS if name in manifest.num_events]
    for use in manifest.fields:
        if "." not in use.path:
            own = [event for event in events if event["event"] == use.event]
            assert use.num_present == sum(event.get(use.path) is not None for event in own), use
    missing = {f"{use.event}.{use.path}" for use in manifest.fields if use.is_missing}
    assert missing <= {"run_meta.wall.identity"}


def test_an_absent_file(tmp_path):
    with pytest.raises(NothingToDoError):
        read_manifest(tmp_path / "events.jsonl")
