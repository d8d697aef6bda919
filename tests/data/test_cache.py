"""The feature store: all or nothing, verified, and never in the way."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from fluxctl.data.cache import CACHE_DIR_VARIABLE, FeatureStore, cache_folder, cache_key

ARRAYS = {
    "values": np.arange(60, dtype=np.float32).reshape(20, 3),
    "offsets": np.array([0, 5, 20]),
    "labels": np.array([1, 0]),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "scalar": np.array(2.5),
    "flags": np.array([True, False, True]),
}
META = {"split_point": "block5.ffn_output", "num_train": 1, "nested": {"list": [1, None, "ü"]}}


@pytest.fixture
def store(tmp_path):
    return FeatureStore(tmp_path / "cache")


@pytest.mark.feature("B13")
def test_what_is_saved_is_loaded_bit_for_bit(store):
    assert store.load("k").entry is None
    assert store.save("k", ARRAYS, META) is None
    found = store.load("k")
    assert found.problem is None
    assert found.entry.meta == META
    assert set(found.entry.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        loaded = found.entry.arrays[name]
        assert loaded.dtype == array.dtype, name
        assert loaded.shape == array.shape, name
        assert np.array_equal(loaded, array), name


def test_an_entry_is_a_plain_safetensors_file(store):
    store.save("k", ARRAYS, META)
    assert np.array_equal(load_file(store.path("k"))["values"], ARRAYS["values"])


def test_arrays_in_any_memory_layout_are_saved_by_value(store):
    array = np.arange(12.0).reshape(3, 4).T[:, ::2]
    store.save("k", {"a": array}, {})
    assert np.array_equal(store.load("k").entry.arrays["a"], array)


def test_writing_into_a_loaded_array_leaves_the_entry_alone(store):
    store.save("k", ARRAYS, META)
    store.load("k").entry.arrays["values"][:] = -1
    assert np.array_equal(store.load("k").entry.arrays["values"], ARRAYS["values"])


def check_rebuilt(store):
    """A damaged entry is reported once, removed, and can be written anew."""
    found = store.load("k")
    assert found.entry is None
    assert "cannot be used" in found.problem
    assert str(store.path("k")) in found.problem
    assert not store.path("k").exists()
    assert store.load("k").problem is None
    assert store.save("k", ARRAYS, META) is None
    assert store.load("k").entry is not None


@pytest.mark.feature("B21")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_off_anywhere_is_detected_and_rebuilt(store, data):
    store.save("k", ARRAYS, META)
    whole = store.path("k").read_bytes()
    store.path("k").write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    check_rebuilt(store)


@pytest.mark.feature("B21")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_never_changes_what_is_loaded(store, data):
    """Padding and redundant spellings of the header may flip unseen; what is loaded may not differ."""
    store.save("k", ARRAYS, META)
    whole = bytearray(store.path("k").read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    store.path("k").write_bytes(whole)
    found = store.load("k")
    if found.entry is None:
        assert "cannot be used" in found.problem
        store.save("k", ARRAYS, META)
    else:
        assert found.entry.meta == META
        assert {name: array.tolist() for name, array in found.entry.arrays.items()} == {
            name: array.tolist() for name, array in ARRAYS.items()
        }


@pytest.mark.feature("B21")
def test_a_hole_in_the_middle_is_detected(store):
    """A copy that broke off on some file systems leaves zeros, not a short file."""
    store.save("k", {"values": np.ones((1000, 50), dtype=np.float32)}, {})
    with store.path("k").open("r+b") as file:
        file.seek(100_000)
        file.write(bytes(4096))
    check_rebuilt(store)


@pytest.mark.parametrize("content", [b"", b"not a cache entry", b"\0" * 4096, b"\xff" * 4096])
def test_a_file_of_another_kind_is_rebuilt(store, content):
    store.folder.mkdir()
    store.path("k").write_bytes(content)
    check_rebuilt(store)


def test_an_entry_under_another_name_is_not_used(store):
    store.save("other", ARRAYS, META)
    os.replace(store.path("other"), store.path("k"))
    check_rebuilt(store)


def test_a_writer_that_dies_leaves_no_entry(store, monkeypatch):
    def die(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("fluxctl.data.cache.os.replace", die)
    with pytest.raises(KeyboardInterrupt):
        store.save("k", ARRAYS, META)
    assert list(store.folder.iterdir()) == []


def test_drafts_of_killed_writers_are_removed_once_they_are_old(store):
    store.folder.mkdir()
    old, fresh = store.folder / ".a.1.tmp", store.folder / ".b.2.tmp"
    for draft in (old, fresh):
        draft.write_bytes(b"x")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    store.save("k", ARRAYS, META)
    assert not old.exists()
    assert fresh.exists()


def test_two_processes_may_write_one_entry_at_once(store):
    code = (
        "import sys, numpy as np; from pathlib import Path; from fluxctl.data.cache import FeatureStore;"
        "s = FeatureStore(Path(sys.argv[1])); a = {'v': np.arange(50_000.0)};"
        "r = [(s.save('k', a, {}), s.load('k')) for _ in range(40)];"
        "assert all(p is None and f.problem is None and f.entry.arrays['v'][-1] == 49_999 for p, f in r)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(store.folder)], stderr=subprocess.PIPE) for _ in range(2)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err.decode()
    assert [path.name for path in store.folder.iterdir()] == ["k.safetensors"]


def test_a_folder_that_cannot_be_written_is_told_and_survived(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = FeatureStore(tmp_path / "file" / "cache")
    assert store.load("k").entry is None
    assert "cannot be written" in store.save("k", ARRAYS, META)


def test_a_full_disk_is_told_and_leaves_nothing_behind(store, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fluxctl.data.cache.save_file", full)
    assert "No space left on device" in store.save("k", ARRAYS, META)
    assert list(store.folder.iterdir()) == []


@pytest.mark.feature("B13")
def test_every_part_of_the_key_counts():
    base = {"model": "a", "data": "b", "split_point": "c", "max_len": 48}
    keys = {cache_key(**base)} | {cache_key(**{**base, part: "x"}) for part in base}
    assert len(keys) == 5
    assert cache_key(**base) == cache_key(**dict(reversed(base.items())))


def test_the_folder_can_be_chosen_by_a_variable(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv(CACHE_DIR_VARIABLE)
    assert cache_folder().name == "fluxctl"


@pytest.mark.skipif(sys.platform != "linux", reason="the XDG rule is that of Linux")
def test_the_default_is_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(CACHE_DIR_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fluxctl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "fluxctl"
