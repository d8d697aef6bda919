"""One engine process from a run directory to its verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fluxctl.config.model import Config
from fluxctl.engine.session import main
from fluxctl.errors import ExitCode
from fluxctl.telemetry.events import missing_fields
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.reader import read_events, read_header

WAIT_S = 60.0  # only ever reached by a test that fails
TINY: dict[str, Any] = {
    "model__name": "tiny",
    "model__adapter_dim": 4,
    "data__source": "synthetic",
    "data__train_per_class": 30,
    "data__test_per_class": 10,
    "clients__num_clients": 8,
    "limits__max_bins": 3,
    "limits__divergence_guard": True,
}
ENDLESS: dict[str, Any] = {"limits__max_bins": None, "limits__max_runtime_s": 1e9}
VERDICT_FIELDS = {"schema_version", "verdict", "reason", "exit_code", "error", "summary"}


@pytest.fixture(scope="module", autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLUXCTL_CACHE_DIR", str(tmp_path_factory.mktemp("features")))
        yield


@pytest.fixture(autouse=True)
def _signal_handlers() -> Iterator[None]:
    """A session takes over the signals of its process; give them back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder_of(tmp_path: Path, config_of: Callable[..., Config], run_folder: Callable[..., Path]) -> Callable[..., Path]:
    return lambda **overrides: run_folder(tmp_path / "run", config_of(**{**TINY, **overrides}))


def verdict_of(folder: Path) -> dict[str, Any]:
    verdict: dict[str, Any] = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    assert set(verdict) == VERDICT_FIELDS
    return verdict


@pytest.mark.feature("C1", "C2", "C3", "C4", "C5", "C7", "C9", "C11", "C16", "C17")
@pytest.mark.parametrize("mode", ["sim", "real"])
def test_a_completed_run(folder_of: Callable[..., Path], mode: str) -> None:
    folder = folder_of(mode=mode, delays__low_s=0.01, delays__high_s=0.05)
    assert main([str(folder)]) == ExitCode.OK
    verdict, events = verdict_of(folder), list(read_events(folder / "events.jsonl"))
    assert (verdict["verdict"], verdict["exit_code"], verdict["error"]) == ("COMPLETED", 0, None)
    assert verdict["summary"]["bins"] == 3
    assert verdict["summary"]["hash"] == canonical_hash(folder / "events.jsonl")
    assert [(event["event"], missing) for event in events if (missing := missing_fields(event))] == []
    assert [event["event"] for event in (events[0], events[-1])] == ["run_meta", "verdict"]
    assert (events[-1]["verdict"], events[-1]["reason"]) == (verdict["verdict"], verdict["reason"])
    assert read_header(folder / "events.jsonl")["identity"]["mode"] == mode
    layout = events[0]["params"]
    for name in ("final", "last_good"):
        tensors = load_file(folder / "checkpoints" / f"{name}.safetensors")
        assert {key: tensor.numel() for key, tensor in tensors.items()} == {
            key: torch.Size(shape).numel() for key, shape in layout.items()
        }
    passes = sum(event["forward_passes"] for event in events if event["event"] == "trainer_round")
    assert verdict["summary"]["forward_passes"] == passes
    notes = [json.loads(line) for line in (folder / "wall.jsonl").read_text().splitlines()]
    phases = [note["phase"] for note in notes if note["event"] == "progress"]
    assert phases == sorted(phases)  # prepare, if there is anything to prepare, then train
    assert phases[-1] == "train"


@pytest.mark.feature("B16")
def test_a_far_too_large_learning_rate_is_diverged(folder_of: Callable[..., Path]) -> None:
    folder = folder_of(server__lr=1e6)
    assert main([str(folder)]) == ExitCode.ANSWER_IS_NO
    verdict = verdict_of(folder)
    assert (verdict["verdict"], verdict["exit_code"]) == ("DIVERGED", 1)
    tensors = load_file(folder / "checkpoints" / "last_good.safetensors")
    assert all(torch.isfinite(tensor).all() and tensor.abs().max() < 10 for tensor in tensors.values())
    [last] = [event for event in read_events(folder / "events.jsonl") if event["event"] == "verdict"]
    assert last["verdict"] == "DIVERGED"


@pytest.mark.feature("A31")
def test_a_raising_trainer_is_crashed(folder_of: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(engine__fault_client=2, clients__num_clients=3)
    assert main([str(folder)]) == ExitCode.RUN_BROKE
    verdict = verdict_of(folder)
    assert (verdict["verdict"], verdict["exit_code"]) == ("CRASHED", 3)
    assert verdict["error"]["code"] == "trainer_failed"
    assert "client 2" in verdict["error"]["message"]
    assert "InjectedFaultError" in verdict["error"]["detail"]
    assert "on_trainer_error" in verdict["error"]["hint"]
    assert "client 2" in capsys.readouterr().err


@pytest.mark.feature("A23")
def test_a_stop_file_interrupts(folder_of: Callable[..., Path]) -> None:
    folder = folder_of(**ENDLESS)
    (folder / "stop").write_text("the lid is closing\n", encoding="utf-8")
    start = time.monotonic()
    assert main([str(folder)]) == ExitCode.INTERRUPTED
    assert time.monotonic() - start < WAIT_S
    verdict = verdict_of(folder)
    assert (verdict["verdict"], verdict["reason"]) == ("INTERRUPTED", "the lid is closing")
    assert (folder / "checkpoints" / "final.safetensors").exists()


@pytest.mark.feature("A23")
@pytest.mark.parametrize("mode", ["sim", "real"])
def test_a_signal_interrupts_within_seconds(folder_of: Callable[..., Path], mode: str) -> None:
    """Sent as soon as the run trains; on the wall everybody is asleep for minutes then."""
    folder = folder_of(**ENDLESS, mode=mode, delays__low_s=400.0, delays__high_s=500.0)
    sent: list[float] = []

    def send_when_training() -> None:
        deadline = time.monotonic() + WAIT_S
        events = folder / "events.jsonl"
        while not (events.exists() and events.stat().st_size):  # the header is written when all is prepared
            if time.monotonic() > deadline:
                (folder / "stop").touch()
                return
            poll.wait(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    poll = threading.Event()
    sender = threading.Thread(target=send_when_training)
    sender.start()
    assert main([str(folder)]) == ExitCode.INTERRUPTED
    ended = time.monotonic()
    sender.join(WAIT_S)
    verdict = verdict_of(folder)
    assert (verdict["verdict"], verdict["reason"]) == ("INTERRUPTED", "received SIGTERM")
    assert ended - sent[0] < 5.0


def test_a_broken_configuration_is_told_in_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("aggregation:\n  goals: 3\n", encoding="utf-8")
    assert main([str(tmp_path)]) == ExitCode.CHANGE_REQUEST
    verdict = verdict_of(tmp_path)
    assert (verdict["verdict"], verdict["error"]["code"]) == ("CRASHED", "config")
    assert "goals" in verdict["error"]["message"]
    assert "config.yaml:2" in verdict["error"]["where"]


def test_a_bug_is_told_in_the_verdict(
    folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the preparation")

    monkeypatch.setattr("fluxctl.engine.session.prepare_task", broken)
    folder = folder_of()
    assert main([str(folder)]) == ExitCode.BUG
    verdict = verdict_of(folder)
    assert verdict["error"]["message"] == "ZeroDivisionError: in the preparation"
    assert "Traceback" in verdict["error"]["detail"]
    assert "in the preparation" in capsys.readouterr().err


def test_without_a_folder_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.CHANGE_REQUEST
    assert "usage: python -m fluxctl.engine RUN_DIR" in capsys.readouterr().err


@pytest.mark.feature("A1")
def test_as_a_process(folder_of: Callable[..., Path]) -> None:
    folder = folder_of()
    done = subprocess.run(
        [sys.executable, "-m", "fluxctl.engine", str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    here = verdict_of(folder)["summary"]["hash"]
    for name in ("events.jsonl", "wall.jsonl", "verdict.json"):
        (folder / name).unlink()
    assert main([str(folder)]) == ExitCode.OK
    assert verdict_of(folder)["summary"]["hash"] == here  # another process, the same run


@pytest.mark.feature("B23")
@pytest.mark.parametrize("estimator", ["central_difference", "backprop"])
def test_the_memory_of_a_step_is_told_and_changes_nothing(folder_of: Callable[..., Path], estimator: str) -> None:
    folder = folder_of(step__estimator=estimator)
    assert main([str(folder)]) == ExitCode.OK
    told = next(iter(read_events(folder / "events.jsonl")))["wall"]["step_memory"]
    summary = verdict_of(folder)["summary"]
    assert told["num_samples"] == 8
    for name in ("forward_memory_bytes", "backprop_memory_bytes"):
        assert summary[name] == told[name] > 0
    off = folder_of(step__estimator=estimator, telemetry__step_memory=False)
    for name in ("events.jsonl", "wall.jsonl", "verdict.json"):
        (off / name).unlink()
    assert main([str(off)]) == ExitCode.OK
    assert "step_memory" not in next(iter(read_events(off / "events.jsonl")))["wall"]
    assert "forward_memory_bytes" not in verdict_of(off)["summary"]
    assert verdict_of(off)["summary"]["hash"] == summary["hash"]


@pytest.mark.feature("B23")
def test_a_step_that_has_no_room_is_no_reason_not_to_train(
    folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_room(*_: object) -> None:
        raise RuntimeError("not enough memory: you tried to allocate 1 PiB")

    monkeypatch.setattr("fluxctl.learn.learner.step_memory", no_room)
    folder = folder_of()
    assert main([str(folder)]) == ExitCode.OK
    assert "the memory of a step is not measured: not enough memory" in capsys.readouterr().err


@pytest.mark.feature("A23", "C4", "C17")
def test_a_budget_that_ends_between_cycles_is_named_by_the_verdict(folder_of: Callable[..., Path]) -> None:
    """The last cycle was written before, when the run went on."""
    folder = folder_of(limits__max_bins=None, limits__max_runtime_s=30.0)
    assert main([str(folder)]) == ExitCode.OK
    events = list(read_events(folder / "events.jsonl"))
    rounds = [event for event in events if event["event"] == "agg_round"]
    assert rounds
    assert {event["stop_reason"] for event in rounds} == {None}
    assert events[-1]["reason"] == verdict_of(folder)["reason"] == "the engine-time budget (30 s) is used up"
