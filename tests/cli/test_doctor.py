"""doctor: what is there is told, what is missing is a note or a problem, and a problem is exit code 1."""

import builtins
import shutil
from collections import namedtuple

import pytest

from fluxctl.commands import _doctor_checks
from fluxctl.errors import AssetError

NAMES = ["python", "torch", "cores", "memory", "devices", "cache", "runs folder", "disk", "assets", "presets", "images"]


@pytest.fixture(autouse=True)
def _no_browser(monkeypatch, tmp_path):
    monkeypatch.setenv("FLUXCTL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("fluxctl.commands._doctor_checks.missing_for_images", lambda: "images need kaleido: pip ...")


@pytest.mark.feature("G7")
@pytest.mark.demo
def test_a_sound_installation(fluxctl, tmp_path):
    answer = fluxctl("doctor")
    assert answer.code == 0
    for name in NAMES:
        assert f"  {name}  " in answer.out
    assert "are the pinned files (SHA-256)" in answer.out
    assert "run sets with" in answer.out
    assert "no problem" in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "runs").exists()  # it only looks


@pytest.mark.feature("G6", "G7")
def test_as_json(fluxctl):
    told = fluxctl("doctor", "--json").envelope
    assert told["command"] == "doctor"
    found = {check["check"]: check for check in told["data"]["checks"]}
    assert list(found) == NAMES
    assert found["images"]["status"] == "note"
    assert "kaleido" in found["images"]["hint"]
    assert found["presets"]["status"] == "ok"


def problem(fluxctl, name):
    answer = fluxctl("doctor", "--json")
    found = {check["check"]: check for check in answer.envelope["data"]["checks"]}
    assert (answer.code, answer.envelope["status"]) == (1, "no")
    assert found[name]["status"] == "problem"
    return found[name]


@pytest.mark.feature("G7")
def test_a_damaged_asset_is_a_problem_and_a_missing_one_a_note(fluxctl, monkeypatch):
    def fail(*_):
        raise AssetError("model.safetensors is not the pinned file", hint="pip install 'fluxctl[demo]'")

    monkeypatch.setattr("fluxctl.commands._doctor_checks.minilm_folder", fail)
    monkeypatch.setattr("fluxctl.commands._doctor_checks.util.find_spec", lambda name: object())
    assert "is not the pinned file" in problem(fluxctl, "assets")["message"]
    monkeypatch.setattr("fluxctl.commands._doctor_checks.util.find_spec", lambda name: None)
    answer = fluxctl("doctor")
    assert answer.code == 0
    assert "only --model tiny --data synthetic run" in answer.out


@pytest.mark.feature("G7")
def test_a_runs_folder_that_cannot_be_made(fluxctl, tmp_path):
    (tmp_path / "runs").write_text("a file")
    assert "cannot write the runs folder" in problem(fluxctl, "runs folder")["message"]


def test_a_full_disk(fluxctl, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 1 << 20))
    assert "make room" in problem(fluxctl, "disk")["hint"]


def test_a_torch_that_cannot_be_loaded(fluxctl, monkeypatch):
    original = builtins.__import__

    def load(name, *args, **kwargs):
        if name == "torch":
            raise OSError("libtorch.so: cannot open shared object file")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", load)
    found = _doctor_checks.CHECKS["torch"](None)
    assert (found.state, found.hint) == ("problem", "reinstall torch")
    assert "libtorch.so" in found.message


def test_an_unwritable_cache_is_a_note(fluxctl, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file")
    answer = fluxctl("doctor", "--json")
    found = {check["check"]: check for check in answer.envelope["data"]["checks"]}
    assert found["cache"]["status"] == "note"
    assert "FLUXCTL_CACHE_DIR" in found["cache"]["hint"]
