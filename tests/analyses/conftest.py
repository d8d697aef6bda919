"""Event files written by hand, and recorded runs that a test may change."""

import json
import shutil
from pathlib import Path

import pytest

from fluxctl.runs.index import list_runs
from fluxctl.runs.layout import RunFolder

HEADER = {"event": "header", "schema_version": 1, "identity": {"run": "r", "mode": "sim"}}


@pytest.fixture
def write_events(tmp_path):
    """Write events to a file and return its path."""

    def write(events, name="events.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(event) + "\n" for event in [HEADER, *events]))
        return path

    return write


@pytest.fixture
def run_copy(recorded_runs, tmp_path):
    """A copy of the first recorded run of a baseline, to be broken."""

    def copy(baseline="fluxtune") -> RunFolder:
        info = next(info for info in list_runs(recorded_runs) if info.record.baseline == baseline)
        target = tmp_path / "runs" / info.record.id
        shutil.copytree(info.folder.path, target)
        return RunFolder(Path(target))

    return copy


@pytest.fixture
def edit_events():
    """Change the events of a run; the function returns an event, None to drop it, or a list."""

    def edit(folder, change):
        lines = folder.events.read_text().splitlines()
        out = []
        for line in lines:
            made = change(json.loads(line))
            out += made if isinstance(made, list) else [] if made is None else [made]
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in out))

    return edit
