"""The engine's side of waiting for a run: end of input, the log, and what went wrong before."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fluxctl.engine import standby


@pytest.mark.feature("E22")
@pytest.mark.parametrize("text", [b"", b'"/torn'])
def test_it_ends_with_whoever_started_it(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert standby.serve() == 0


def test_what_it_says_goes_to_the_log_of_the_run(tmp_path):
    folder = tmp_path / "a\nrun"
    folder.mkdir()
    code = "import sys; from fluxctl.engine.standby import serve; sys.exit(serve())"
    told = json.dumps(str(folder)) + "\n"
    done = subprocess.run([sys.executable, "-c", code], input=told, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode == 2  # an empty folder is no run
    assert "config.yaml" in (folder / "run.log").read_text()
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "CRASHED"


def test_an_import_that_failed_is_told_in_the_log(tmp_path):
    code = "import sys; sys.modules['torch'] = None; from fluxctl.engine.standby import serve; sys.exit(serve())"
    told = json.dumps(str(tmp_path)) + "\n"
    done = subprocess.run([sys.executable, "-c", code], input=told, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
    assert "ModuleNotFoundError" in (tmp_path / "run.log").read_text()
