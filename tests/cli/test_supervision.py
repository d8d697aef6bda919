"""The hard failures, for real: processes, signals, terminals, disks. After each no process of ours is left, the verdict
tells the truth and what was written can be read.

Where the engine's own work plays no part a script stands in for it, so that a test takes a second; the rest runs the
real one, on the tiny model.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pty
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from rich.cells import cell_len
from safetensors.numpy import load_file

from fluxctl.config.load import read_config
from fluxctl.gate.tier_items import values_of
from fluxctl.runs.index import list_runs
from fluxctl.runs.standby import Standby
from fluxctl.telemetry.reader import read_events

LIMIT_S = 60  # of every wait, on a machine as busy as can be
TINY = [
    "model.name=tiny", "model.adapter_dim=4", "data.source=synthetic", "data.train_per_class=30",
    "data.test_per_class=10", "clients.num_clients=8", "aggregation.goal=3", "aggregation.concurrency=3",
    "delays.model=uniform", "delays.low_s=1.0", "delays.high_s=10.0", "gate.stopping_policy=fixed_cap",
    "gate.max_iterations_per_bin=1", "engine.num_workers=1", "limits.max_wall_s=1e6", "limits.divergence_guard=false",
]  # fmt: skip
ENDLESS = ["launch", "--only", "fwdllm", *[part for text in TINY for part in ("--set", text)], "--yes",
           "--max-runtime", "1000d"]  # fmt: skip
SMOKE = ["launch", "--run-set", "smoke", "--model", "tiny", "--data", "synthetic", "--yes"]
# The program with another engine, or less patience; `line` is Python.
PROGRAM = """
import fcntl, functools, importlib.util, sys, termios
if {has_terminal}:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal's Ctrl-C is ours
import fluxctl.commands._starter as starter
import fluxctl.runs.process as process
if {line!r}:
    starter.standby_command = lambda folder: None
process.Grace = functools.partial(process.Grace, stop_s={grace_s}, term_s={grace_s})
{line}
from fluxctl.cli import main
sys.exit(main({args!r}))
"""
FAKE = f"""
spec = importlib.util.spec_from_file_location("fake", {str(Path(__file__).with_name("conftest.py"))!r})
fake = importlib.util.module_from_spec(spec)
sys.modules["fake"] = fake
spec.loader.exec_module(fake)
starter.engine_command = lambda folder: [sys.executable, "-I", "-S", "-c", fake.FAKE_ENGINE, str(folder.path)]
"""
STUBBORN = """
starter.engine_command = lambda folder: [sys.executable, "-I", "-S", "-c", '''
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + "/wall.jsonl", "w").write('{"event": "progress", "phase": "train", "what": "bins"}' + chr(10))
time.sleep(120)
''', str(folder.path)]
"""
# The real engine, whose fifth step never returns from C; PyDLL keeps the interpreter's lock, CDLL does not.
HANG = """
starter.engine_command = lambda folder: [sys.executable, "-P", "-c", '''
import ctypes, sys
from fluxctl.engine.session import main
from fluxctl.learn import learner
step, count = learner.Learner.step, []
def hang(self, *args, **kwargs):
    count.append(1)
    if len(count) == 5:
        ctypes.{library}(None).sleep(600)
    return step(self, *args, **kwargs)
learner.Learner.step = hang
sys.exit(main([sys.argv[1]]))
''', str(folder.path)]
"""


def program(line, args, *, has_terminal=False, grace_s=0.5):
    text = PROGRAM.format(line=line, args=[str(arg) for arg in args], has_terminal=has_terminal, grace_s=grace_s)
    return [sys.executable, "-c", text]


@pytest.fixture(autouse=True)
def _surroundings(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("FLUXCTL_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "supervision-cache"))
    monkeypatch.setenv("TERM", "xterm-256color")  # what it is called, not what the one is that runs the tests
    for name in ("FLUXCTL_RUNS_DIR", "NO_COLOR", "COLUMNS", "LINES", "FLUXCTL_NO_PROGRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def launched(tmp_path):
    """Start programs in an empty folder; what they leave behind is ended, and a test that leaves something fails."""
    processes = []

    def start(command, **kwargs):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
        # as Python knows it: readline, where it is loaded, sets COLUMNS behind its back
        process = subprocess.Popen(command, cwd=tmp_path, text=True, env=dict(os.environ), **streams)
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(ValueError, OSError):
            process.communicate(timeout=10)
    left = engines(tmp_path)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def engines(tmp_path):
    """Live engine processes that work below a folder, by their command lines: run.json may be gone or wrong."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and words and words[-1].startswith(str(tmp_path)):
            found.append(process.info["pid"])
        elif words and (words[-1].startswith("runs/") or "--standby" in words):
            with contextlib.suppress(psutil.Error):
                if process.cwd() == str(tmp_path) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.info["pid"])
    return found


def wait_for(condition, process=None):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)
    return found


def training(folder, process):
    """The first run in a folder, once its engine trains."""

    def look():
        for run in sorted(folder.glob("2*")):
            events = run / "events.jsonl"
            if events.exists() and events.stat().st_size > 3000:
                return run
        return None

    return wait_for(look, process)


def only_run(folder):
    (info,) = list_runs(folder)
    assert info.status == "ended"
    return info


def readable(folder):
    """Every whole line of the event file is an event; returns how many there are."""
    events = read_events(folder.events)
    return sum(1 for _ in events)


def plain(text):
    """What a terminal was sent, without colours and cursor moves."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, start, line, args, columns=100):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, columns.to_bytes(2, "little").join([b"\x1e\x00", b"\x00\x00\x00\x00"]))
        self.process = start(
            program(line, args, has_terminal=True, grace_s=30),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def read_until(self, pattern):
        deadline = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline, f"{pattern!r} did not appear in {self.seen!r}"
            if select.select([self._master], [], [], 0.2)[0] and not self._take():
                assert re.search(pattern, self.seen), f"{pattern!r} did not appear in {self.seen!r}"

    def press(self, keys):
        os.write(self._master, keys)

    def wait(self):
        while self._take():
            pass
        os.close(self._master)
        return self.process.wait(LIMIT_S)

    def _take(self):
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            if error.errno == errno.EIO:  # nobody holds the other end any more
                return False
            raise
        self.seen += data.decode(errors="replace")
        return bool(data)


@pytest.mark.feature("E22", "E14")
def test_ctrl_c_once_stops_cleanly(launched, tmp_path, monkeypatch):
    plan = {"smoke": {"waits": True, "verdict": {"verdict": "INTERRUPTED", "exit_code": 130, "reason": "asked"}}}
    monkeypatch.setenv("FAKE_ENGINE", json.dumps(plan))
    terminal = Terminal(launched, FAKE, SMOKE)
    terminal.read_until("in flight 7")  # the panel
    terminal.press(b"\x03")
    terminal.read_until("stopping cleanly; once more to end at once")
    assert terminal.wait() == 130
    info = only_run(tmp_path / "runs")
    assert (info.verdict.verdict, info.verdict.reason) == ("INTERRUPTED", "asked")  # the engine's own word
    assert "2 runs were not started" in terminal.seen
    assert "start what was interrupted, and what is left, with" in terminal.seen
    assert f"\r\n  fluxctl {' '.join(SMOKE)}\r\n" in terminal.seen  # none has ended, so all again
    assert terminal.seen.rstrip().endswith("runs show latest`")  # the panel is gone, the program had the last word


@pytest.mark.feature("E16")
@pytest.mark.parametrize("columns", [60, 120])
def test_the_gate_at_a_terminal(launched, tmp_path, columns):
    """As wide as the terminal, whatever it is; the question comes below it, and no is an answer."""
    terminal = Terminal(launched, FAKE, SMOKE[:-1], columns=columns)
    terminal.read_until(r"Start 3 runs\? \[y/N\]")
    terminal.press(b"n\n")
    assert terminal.wait() == 1
    lines = plain(terminal.seen).splitlines()
    assert [len(line) for line in lines if line.startswith("━━ ")] == [columns] * 4
    assert max(map(cell_len, lines)) <= columns
    assert "nothing was started" in terminal.seen
    assert "\x1b[36mfwdllm" in terminal.seen
    assert not (tmp_path / "runs").exists()


@pytest.mark.feature("E22")
def test_ctrl_c_twice_ends_at_once(launched, tmp_path):
    terminal = Terminal(launched, STUBBORN, SMOKE)
    terminal.read_until("0 %")
    terminal.press(b"\x03")
    terminal.read_until("once more to end at once")
    began = time.monotonic()
    terminal.press(b"\x03")
    assert terminal.wait() == 130
    assert time.monotonic() - began < 10
    info = only_run(tmp_path / "runs")
    assert (info.verdict.verdict, info.verdict.reason) == ("INTERRUPTED", "interrupted twice by the user")


@pytest.mark.feature("E26", "E27", "E24")
def test_an_engine_that_is_killed(launched, tmp_path):
    process = launched([sys.executable, "-m", "fluxctl.cli", *ENDLESS, "--json"])
    run = training(tmp_path / "runs", process)
    os.kill(json.loads((run / "run.json").read_text())["process"]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=LIMIT_S)
    told = json.loads(out.splitlines()[-1])
    assert (process.returncode, told["status"], told["error"]["code"]) == (3, "error", "run_broke")
    info = only_run(tmp_path / "runs")
    assert info.verdict.verdict == told["data"]["runs"][0]["verdict"] == "CRASHED"
    assert "killed by signal SIGKILL" in info.verdict.reason
    assert "killed by signal SIGKILL" in err
    assert readable(info.folder) > 10


@pytest.mark.feature("E26", "E21")
@pytest.mark.parametrize("library", ["PyDLL", pytest.param("CDLL", marks=pytest.mark.nightly)])
def test_a_step_that_hangs_in_a_native_call(launched, tmp_path, library):
    process = launched(program(HANG.replace("{library}", library), [*ENDLESS, "--hang-after", "6s"]))
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, err
    info = only_run(tmp_path / "runs")
    assert (info.verdict.verdict, info.verdict.launch_code) == ("TIMEOUT", 3)
    assert "no sign of life for 6 s" in info.verdict.reason
    assert "--hang-after" in err
    assert "TIMEOUT" in out
    assert readable(info.folder) > 0


def test_an_engine_that_was_suspended_is_ended_too(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE", json.dumps({"smoke": {"waits": True}}))
    process = launched(program(FAKE, [*SMOKE, "--only", "fwdllm", "--set", "limits.max_wall_s=2"]))
    (pid,) = wait_for(lambda: engines(tmp_path), process)
    os.kill(pid, signal.SIGSTOP)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, err
    assert only_run(tmp_path / "runs").verdict.verdict == "WALL_CEILING"


TWO = [*ENDLESS, "--only", "fwdllm,fluxtune"]


def waiting(tmp_path):
    """Processes that have no run yet."""
    busy = {mark.pid for info in list_runs(tmp_path / "runs") if (mark := info.record.process) is not None}
    return [pid for pid in engines(tmp_path) if pid not in busy]


@pytest.mark.feature("E22", "E23")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_waits_for_its_run_ends_with_the_launch(launched, tmp_path, number):
    process = launched([sys.executable, "-m", "fluxctl.cli", *TWO])
    training(tmp_path / "runs", process)
    wait_for(lambda: waiting(tmp_path), process)
    process.send_signal(number)
    assert process.wait(LIMIT_S) == (-9 if number == signal.SIGKILL else 143)
    wait_for(lambda: not engines(tmp_path))
    info = only_run(tmp_path / "runs")
    reason = "the supervisor is gone" if number == signal.SIGKILL else "interrupted by the user"
    assert (info.verdict.verdict, info.verdict.reason) == ("INTERRUPTED", reason)


@pytest.mark.feature("E24")
def test_a_process_that_died_while_it_waited_is_replaced(fluxctl, tmp_path, monkeypatch):
    """And who computes a run, one that waited or a fresh one, changes nothing in it."""
    taken, take = [], Standby.take

    def note(self, folder):
        child = take(self, folder)
        taken.append(child is not None)
        return child

    def die(self):
        warm(self)
        self._child.kill()
        self._child.wait()

    monkeypatch.setattr(Standby, "take", note)
    answers = [fluxctl(*TWO, "--max-bins", "2", "--json")]
    warm = Standby.warm
    monkeypatch.setattr(Standby, "warm", die)
    answers.append(fluxctl(*TWO, "--max-bins", "2", "--json"))
    assert [answer.code for answer in answers] == [0, 0]
    assert taken == [True, True, False, False]
    first, second = ([row["hash"] for row in answer.envelope["data"]["runs"]] for answer in answers)
    assert first == second
    assert None not in first


def test_two_launches_in_one_folder(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE", "{}")
    both = [launched(program(FAKE, [*SMOKE, "--jobs", "2", "--json"])) for _ in range(2)]
    told = [json.loads(process.communicate(timeout=LIMIT_S)[0].splitlines()[-1]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    ids = [row["id"] for answer in told for row in answer["data"]["runs"]]
    assert len(set(ids)) == 6
    infos = list_runs(tmp_path / "runs")
    assert sorted(info.record.id for info in infos) == sorted(ids)
    assert {info.verdict.verdict for info in infos} == {"CONVERGED"}
    assert len({info.record.group for info in infos}) == 2
    assert (tmp_path / "runs" / "latest").resolve().name in ids


@pytest.mark.feature("E23")
def test_another_launch_with_a_live_supervisor_is_left_alone(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE", json.dumps({"-fwdllm-": {"waits": True}}))
    first = launched(program(FAKE, [*SMOKE, "--only", "fwdllm"]))
    (pid,) = wait_for(lambda: engines(tmp_path), first)
    wait_for(lambda: '"running"' in next((tmp_path / "runs").glob("2*/run.json")).read_text(), first)
    second = launched(program(FAKE, [*SMOKE, "--only", "fluxtune", "--clean"]))
    _, err = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 0, err
    assert engines(tmp_path) == [pid]
    (next((tmp_path / "runs").glob("*-fwdllm-*")) / "stop").write_text("enough")
    assert first.wait(LIMIT_S) == 0


@pytest.fixture
def stray(launched, tmp_path):
    """An engine that ignores everything, and whose supervisor was killed."""
    process = launched(program(STUBBORN, [*SMOKE, "--only", "fwdllm"]))
    wait_for(lambda: '"running"' in "".join(file.read_text() for file in (tmp_path / "runs").glob("2*/run.json")))
    (pid,) = wait_for(lambda: engines(tmp_path), process)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/wall.jsonl")), process)
    process.kill()
    process.wait()
    return pid


@pytest.mark.feature("E23")
def test_a_stray_engine_keeps_a_launch_from_starting(fluxctl, engine, stray, tmp_path, monkeypatch):
    monkeypatch.setattr("fluxctl.runs.strays.NOTICE_S", 0.3)
    answer = fluxctl(*SMOKE, "--only", "fluxtune")
    assert answer.code == 2
    assert "an engine of an earlier launch still run" in answer.err
    assert f"(process {stray})" in answer.err
    assert "--clean ends them first" in answer.err
    assert psutil.pid_exists(stray)
    assert len(list_runs(tmp_path / "runs")) == 1

    monkeypatch.setattr("fluxctl.runs.strays.Grace", type("Grace", (), {"term_s": 0.5}))
    answer = fluxctl(*SMOKE, "--only", "fluxtune", "--clean")
    assert answer.code == 0
    assert f"ending process {stray}" in answer.err
    assert engines(tmp_path) == []
    first, second = list_runs(tmp_path / "runs")
    assert (first.verdict.verdict, second.verdict.verdict) == ("CRASHED", "CONVERGED")
    assert "CRASHED, and nobody had noticed" in answer.err


@contextlib.contextmanager
def small_disk(folder, size_bytes):
    """A disk that is soon full: a small tmpfs where mounting is allowed; returns whether it is."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    mount = shutil.which("mount")
    is_mounted = bool(mount) and subprocess.run([mount, *options], check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.feature("E26")
def test_a_full_disk(launched, tmp_path):
    """A tmpfs of 200 KB; where that may not be mounted, a limit on the size of files, which fails alike."""
    size = 200_000
    with small_disk(tmp_path / "disk", size) as is_mounted:
        command = [sys.executable, "-m", "fluxctl.cli", *ENDLESS, "--runs-dir", str(tmp_path / "disk"), "--json"]
        limit = None if is_mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        process = launched(command, preexec_fn=limit)
        out, err = process.communicate(timeout=LIMIT_S)
        told = json.loads(out.splitlines()[-1])
        assert process.returncode == 3, err
        (row,) = told["data"]["runs"]
        assert row["verdict"] == "CRASHED"
        if is_mounted:
            assert re.search("no space left on device|the disk is full", row["reason"])
            (tmp_path / "disk" / row["id"] / "wall.jsonl").unlink()  # room again
        else:
            assert "file too large" in row["reason"]
        info = only_run(tmp_path / "disk")  # whoever reads next says it, if nobody could write it
        assert info.verdict.verdict == "CRASHED"
        assert readable(info.folder) > 10
        assert engines(tmp_path) == []


@pytest.mark.feature("E26")
def test_a_run_folder_that_is_removed(launched, tmp_path):
    process = launched([sys.executable, "-m", "fluxctl.cli", *ENDLESS, "--json"])
    run = training(tmp_path / "runs", process)
    wait_for(lambda: not remove(run))
    out, err = process.communicate(timeout=LIMIT_S)
    told = json.loads(out.splitlines()[-1])
    assert process.returncode == 3, err
    assert told["data"]["runs"][0]["verdict"] == "CRASHED"
    assert told["error"]["message"] == "the run's folder was removed while it ran"
    assert not run.exists()  # nobody made it again
    assert engines(tmp_path) == []


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


@pytest.mark.feature("E22")
def test_ctrl_c_on_the_real_engine_keeps_the_model(launched, tmp_path):
    terminal = Terminal(launched, "", ENDLESS)
    training(tmp_path / "runs", terminal.process)
    terminal.press(b"\x03")
    assert terminal.wait() == 130
    info = only_run(tmp_path / "runs")
    assert (info.verdict.verdict, info.verdict.reason) == ("INTERRUPTED", "interrupted by the user")
    events = [json.loads(line) for line in info.folder.events.read_text().splitlines()]
    assert events[-1]["event"] == "verdict"
    # what is kept is the model as the last cycle left it
    assert f"the model so far is kept: runs/{info.record.id}/checkpoints/final.safetensors" in terminal.seen
    meta = next(event for event in events if event["event"] == "run_meta")
    kept = load_file(info.folder.weights)
    flat = np.concatenate([kept[name].ravel() for name in meta["params"]])
    cycles = [event for event in events if event["event"] == "agg_round"]
    assert hashlib.blake2b(flat.tobytes(), digest_size=8).hexdigest() == cycles[-1]["model_checksum"]
    assert cycles[-1]["model_checksum"] != cycles[0]["model_checksum"]
    watched = Terminal(launched, "", ["watch"], columns=80)
    assert watched.wait() == 1
    for part in ("accuracy 0.", "best 0.", "engine time", "INTERRUPTED: interrupted by the user"):
        assert part in plain(watched.seen)
    # the command that is printed starts it
    (command,) = re.findall(r"\n  (fluxctl launch .*)\r\n", terminal.seen)
    again = [*shlex.split(command)[1:], "--max-bins", "1"]
    process = launched([sys.executable, "-m", "fluxctl.cli", *again])
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    first, second = list_runs(tmp_path / "runs")
    assert second.verdict.verdict == "COMPLETED"
    assert differing(first, second) == ["limits.max_bins"]


def differing(first, second):
    """Values that two runs were asked differently for."""
    left, right = (values_of(read_config(info.folder.config).config) for info in (first, second))
    return [path for path in left if left[path] != right[path]]


def test_the_programs_are_python():
    for line in (FAKE, STUBBORN, HANG.replace("{library}", "CDLL")):
        compile(textwrap.dedent(PROGRAM).format(line=line, args=[], has_terminal=True, grace_s=1), "program", "exec")
