"""Supervision against small scripts in the engine's place."""

import os
import signal
import sys
import textwrap
import threading
import time

import psutil
import pytest

from fluxctl.config.load import resolve
from fluxctl.config.override import from_set
from fluxctl.errors import ConfigError
from fluxctl.runs.process import EngineProcess, Grace, engine_command, output_of
from fluxctl.runs.supervise import Interrupts, Start, Supervision, wall_ceiling_s
from fluxctl.types import Verdict

PRELUDE = """
import json, os, signal, sys, time
folder = sys.argv[1]
def verdict(name, **more):
    with open(folder + "/.v", "w") as file:
        json.dump({"verdict": name, "exit_code": 0, "summary": {"bins": 7}, **more}, file)
    os.replace(folder + "/.v", folder + "/verdict.json")
def note(**line):
    with open(folder + "/wall.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")
def stopped():
    return os.path.exists(folder + "/stop")
"""
QUICK = Grace(stop_s=0.3, term_s=0.3)


@pytest.fixture
def start(make_run):
    """Start a script as the engine of a new run; nothing survives the test."""
    started = []

    def begin(body, *, max_wall_s=30.0, grace=QUICK, **kwargs):
        run = make_run()
        command = [sys.executable, "-I", "-S", "-c", PRELUDE + textwrap.dedent(body), str(run.path)]
        process = EngineProcess(run, command, max_wall_s=max_wall_s, grace=grace, **kwargs)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill("end of test")


def finish(process, within_s=10.0):
    deadline = time.monotonic() + within_s
    while (verdict := process.poll()) is None:
        assert time.monotonic() < deadline, "the run did not end"
        time.sleep(0.01)
    return verdict


def wait_for(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_a_run_that_ends_by_itself_keeps_its_verdict(start):
    process = start("note(event='progress', bins=1); print('hello'); verdict('CONVERGED')")
    assert process.folder.read_run().status == "running"
    assert process.folder.read_run().process.pid != os.getpid()
    found = finish(process)
    assert (found.verdict, found.summary) == (Verdict.CONVERGED, {"bins": 7})
    assert process.news() == [{"event": "progress", "bins": 1}]
    assert process.folder.log.read_text() == "hello\n"
    assert process.folder.read_run().status == "ended"


@pytest.mark.feature("E24")
def test_a_run_that_dies_at_once_is_told_with_its_last_words(start):
    began = time.monotonic()
    found = finish(start("sys.exit('no such model')"))
    assert time.monotonic() - began < 5  # a second on an idle machine
    assert found.verdict is Verdict.CRASHED
    assert "exit code 1" in found.reason
    assert "no such model" in found.error["detail"]
    assert found.launch_code == 3


@pytest.mark.feature("E27")
@pytest.mark.feature("E26")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("pass", "exit code 0 and left no verdict"),
        ("open(folder + '/verdict.json', 'w').write('{')", "left no verdict"),
        ("verdict('FINE')", "left no verdict"),
    ],
)
def test_an_end_without_a_verdict_is_a_crash(start, body, reason):
    process = start(body)
    found = finish(process)
    assert found.verdict is Verdict.CRASHED
    assert reason in found.reason
    assert process.folder.read_verdict() == found


@pytest.mark.feature("E21")
def test_the_wall_ceiling_ends_a_run_and_keeps_what_it_measured(start):
    found = finish(start("while not stopped(): time.sleep(.01)\nverdict('INTERRUPTED')", max_wall_s=0.2))
    assert (found.verdict, found.summary, found.launch_code) == (Verdict.WALL_CEILING, {"bins": 7}, 3)
    assert "max_wall_s" in found.error["hint"]


@pytest.mark.feature("E21")
def test_a_run_that_ended_by_itself_at_the_ceiling_is_no_timeout(start):
    found = finish(start("while not stopped(): time.sleep(.01)\nverdict('CONVERGED')", max_wall_s=0.2))
    assert found.verdict is Verdict.CONVERGED


@pytest.mark.feature("E26", "E21")
def test_a_run_without_a_sign_of_life_times_out(start, monkeypatch):
    monkeypatch.setattr("fluxctl.runs.process._START_S", 0.4)
    body = "note(event='progress', bins=1)\nwhile not stopped(): time.sleep(.01)\nverdict('INTERRUPTED')"
    found = finish(start(body, hang_after_s=0.3))
    assert (found.verdict, found.launch_code, found.summary) == (Verdict.TIMEOUT, 3, {"bins": 7})
    assert "no sign of life for 0.3 s" in found.reason
    assert "run.log" in found.error["hint"]
    found = finish(start("while not stopped(): time.sleep(.01)\nverdict('INTERRUPTED')", hang_after_s=0.1))
    assert "no sign of life for 0.4 s" in found.reason  # a start may take its time


def test_a_run_that_shows_life_does_not_time_out(start):
    body = "for _ in range(12):\n    note(event='progress'); time.sleep(.1)\nverdict('COMPLETED')"
    assert finish(start(body, hang_after_s=0.6)).verdict is Verdict.COMPLETED


def test_a_run_that_ignores_the_stop_file_gets_term(start):
    body = """
    def end(*_):
        verdict('INTERRUPTED')
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    note(event='ready')
    time.sleep(60)
    """
    process = start(body)
    wait_for(process.news)
    process.ask_to_stop(Verdict.INTERRUPTED, "because")
    found = finish(process)
    assert found.verdict is Verdict.INTERRUPTED
    assert process.folder.stop.read_text() == "because\n"


def test_a_run_that_ignores_everything_is_killed_with_its_children(start):
    body = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    note(event='ready', child=child)
    time.sleep(60)
    """
    process = start(body, max_wall_s=0.5)
    lines = []
    wait_for(lambda: lines.extend(process.news()) or lines)
    found = finish(process)
    assert found.verdict is Verdict.WALL_CEILING
    wait_for(lambda: not psutil.pid_exists(lines[0]["child"]) or psutil.Process(lines[0]["child"]).status() == "zombie")


def test_children_that_an_engine_leaves_behind_are_ended(start):
    body = """
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    note(event='ready', child=child)
    verdict('COMPLETED')
    """
    process = start(body)
    assert finish(process).verdict is Verdict.COMPLETED
    child = process.news()[0]["child"]
    wait_for(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


def test_an_engine_hears_when_its_supervisor_dies(start):
    process = start("sys.stdin.read()\nverdict('INTERRUPTED')")
    process._process.stdin.close()  # as the system does when the supervisor is gone
    assert finish(process).verdict is Verdict.INTERRUPTED


def test_an_engine_has_a_session_of_its_own(start):
    process = start("note(event='x', sid=os.getsid(0), pid=os.getpid()); verdict('COMPLETED')")
    finish(process)
    (line,) = process.news()
    assert line["sid"] == line["pid"] != os.getsid(0)


class Recorder:
    def __init__(self, go_on=lambda verdict: True):
        self.heard = []
        self.verdicts = []
        self.go_on = go_on
        self.most_live = self.live = 0

    def started(self, process):
        self.live += 1
        self.most_live = max(self.most_live, self.live)
        self.heard.append("started")

    def news(self, process, lines):
        self.heard += [line["event"] for line in lines]

    def refused(self, error):
        self.heard.append("refused")

    def stopping(self):
        self.heard.append("stopping")

    def ended(self, process, verdict):
        self.live -= 1
        self.heard.append("ended")
        self.verdicts.append(verdict.verdict)
        return self.go_on(verdict)


def test_runs_start_one_after_the_other(start):
    recorder = Recorder()
    body = "note(event='progress'); verdict('COMPLETED')"
    Supervision([Start(lambda: start(body))] * 3, recorder, Interrupts()).run()
    assert recorder.heard == ["started", "progress", "ended"] * 3
    assert recorder.most_live == 1


def test_several_runs_at_a_time(start):
    recorder = Recorder()
    Supervision(
        [Start(lambda: start("time.sleep(.2); verdict('COMPLETED')"))] * 3, recorder, Interrupts(), jobs=2
    ).run()
    assert recorder.most_live == 2
    assert recorder.verdicts == [Verdict.COMPLETED] * 3


@pytest.mark.feature("E14")
def test_a_run_that_wants_to_be_alone_is(start):
    recorder = Recorder()
    began = []

    def begin(name):
        began.append((name, recorder.live))
        return start("time.sleep(.2); verdict('COMPLETED')")

    starts = [Start(lambda name=name: begin(name), is_alone=name == "real") for name in ("a", "b", "real", "c", "d")]
    Supervision(starts, recorder, Interrupts(), jobs=2).run()
    assert [name for name, _ in began] == ["a", "b", "real", "c", "d"]
    assert [live for name, live in began if name in ("real", "c")] == [0, 0]
    assert began[1] == ("b", 1)
    assert began[4] == ("d", 1)


def test_a_run_that_cannot_start_lets_the_others_end(start):
    recorder = Recorder()

    def refuse():
        raise ConfigError("no room")

    starts = [Start(lambda: start("time.sleep(.2); verdict('COMPLETED')")), Start(refuse), Start(refuse)]
    Supervision(starts, recorder, Interrupts(), jobs=2).run()
    assert recorder.heard == ["started", "refused", "ended"]
    assert recorder.verdicts == [Verdict.COMPLETED]


def test_the_watcher_can_keep_the_rest_from_starting(start):
    recorder = Recorder(go_on=lambda verdict: False)
    Supervision([Start(lambda: start("verdict('CRASHED')"))] * 3, recorder, Interrupts()).run()
    assert recorder.heard.count("started") == 1


def test_the_first_signal_stops_cleanly_and_nothing_new_starts(start):
    recorder = Recorder()
    body = "note(event='ready')\nwhile not stopped(): time.sleep(.01)\nverdict('INTERRUPTED')"
    with Interrupts() as interrupts:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        Supervision([Start(lambda: start(body, grace=Grace()))] * 3, recorder, interrupts).run()
        timer.join()
    assert recorder.heard == ["started", "ready", "stopping", "ended"]
    assert recorder.verdicts == [Verdict.INTERRUPTED]
    assert interrupts.exit_code == 143


def test_the_second_signal_ends_at_once(start):
    recorder = Recorder()
    interrupts = Interrupts()
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nnote(event='ready')\ntime.sleep(60)"
    with interrupts:
        original = recorder.news

        def interrupt_when_ready(process, lines):
            original(process, lines)
            for _ in lines:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)

        recorder.news = interrupt_when_ready
        began = time.monotonic()
        Supervision([Start(lambda: start(body, grace=Grace()))], recorder, interrupts).run()
    assert time.monotonic() - began < 8
    assert recorder.verdicts == [Verdict.INTERRUPTED]
    assert interrupts.exit_code == 130


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_a_failure_of_our_own_leaves_no_process(start):
    processes = []

    def begin():
        processes.append(start("time.sleep(60)"))
        return processes[0]

    recorder = Recorder()
    recorder.news = lambda process, lines: 1 / 0
    with pytest.raises(ZeroDivisionError):
        Supervision([Start(begin)], recorder, Interrupts()).run()
    assert finish(processes[0]).verdict is Verdict.INTERRUPTED


@pytest.mark.parametrize(
    ("sets", "expected_s"),
    [
        (["limits.max_wall_s=7"], 7),
        (["limits.max_runtime_s=60"], 600),
        (["limits.max_runtime_s=7200"], 7200),
        (["limits.max_runtime_s=7200", "engine.charge_compute=measured"], 144_000),
        (["limits.max_runtime_s=7200", "engine.charge_compute=measured", "limits.max_wall_s=5"], 5),
        (["limits.max_runtime_s=7200", "mode=real", "engine.wall_factor=60"], 720),
        (["limits.target_accuracy=0.9"], 48 * 3600),
    ],
)
def test_the_wall_ceiling_by_default(sets, expected_s):
    assert wall_ceiling_s(resolve([], [from_set(text) for text in sets]).config) == expected_s


@pytest.mark.feature("E4")
@pytest.mark.parametrize(
    ("sets", "expected_s"), [([], 600), (["limits.target_accuracy=0.9"], 172_800), (["limits.max_runtime_s=5"], 5)]
)
def test_the_engine_budget_by_default(sets, expected_s):
    assert resolve([], [from_set(text) for text in sets]).config.runtime_budget_s() == expected_s


def test_the_engine_command_names_the_run(make_run):
    run = make_run()
    command = engine_command(run)
    assert command[0] == sys.executable
    assert command[-2:] == ["fluxctl.engine", str(run.path)]


def test_output_of():
    assert output_of([sys.executable, "-c", "print(1)"]) == "1\n"
    assert output_of([sys.executable, "-c", "raise SystemExit(1)"]) is None
    assert output_of(["no-such-program"]) is None
    assert output_of([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.2) is None
