"""A process that waits for its run, against small scripts in its place."""

import os
import sys
import time

import psutil
import pytest

from fluxctl.runs.process import EngineProcess, standby_command
from fluxctl.runs.standby import Standby

WAITS = """
import json, os, sys
line = sys.stdin.readline()
if not line:
    sys.exit(0)
folder = json.loads(line)
open(folder + "/who", "w").write(str(os.getpid()))
open(folder + "/verdict.json", "w").write('{"verdict": "COMPLETED", "exit_code": 0}')
"""
COLD = "import sys; open(sys.argv[1] + '/verdict.json', 'w').write('{\"verdict\": \"CONVERGED\", \"exit_code\": 0}')"


def script(text):
    return [sys.executable, "-I", "-S", "-c", text]


@pytest.fixture
def standby():
    with Standby(script(WAITS)) as kept:
        yield kept


def child_of(kept):
    (process,) = [child for child in psutil.Process().children() if WAITS in child.cmdline()]
    assert kept._is_there()
    return process


def wait_for(condition, within_s=20.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def run_with(kept, run):
    process = EngineProcess(run, [*script(COLD), str(run.path)], max_wall_s=60.0, hand_over=kept.take)
    return wait_for(process.poll).verdict, process


def test_a_process_that_waits_becomes_the_engine(standby, make_run):
    standby.warm()
    pid = child_of(standby).pid
    run = make_run()
    assert run_with(standby, run)[0] == "COMPLETED"
    assert (run.path / "who").read_text() == str(pid)
    assert run.read_run().process.pid == pid
    assert run_with(standby, make_run())[0] == "CONVERGED"  # nobody waits any more


def test_at_most_one_waits(standby):
    standby.warm()
    first = child_of(standby)
    standby.warm()
    assert child_of(standby) == first


def test_one_that_has_died_is_as_good_as_none(standby, make_run):
    standby.warm()
    child = child_of(standby)
    child.kill()
    wait_for(lambda: not standby._is_there())
    assert run_with(standby, make_run())[0] == "CONVERGED"
    standby.warm()
    assert run_with(standby, make_run())[0] == "COMPLETED"


def test_a_program_that_cannot_be_started_is_as_good_as_none(make_run):
    with Standby(["/no/such/program"]) as kept:
        kept.warm()
        assert run_with(kept, make_run())[0] == "CONVERGED"


def test_none_is_wanted(make_run):
    with Standby(None) as kept:
        kept.warm()
        assert run_with(kept, make_run())[0] == "CONVERGED"


def test_none_is_left_behind(standby):
    standby.warm()
    child = child_of(standby)
    assert os.getsid(child.pid) == child.pid  # the terminal's Ctrl-C is not for it
    standby.close()
    assert not child.is_running()
    standby.close()


def test_the_command_names_the_runs_folder(tmp_path):
    assert standby_command(tmp_path)[-3:] == ["fluxctl.engine", "--standby", str(tmp_path)]
