"""Strays: whose engine lives without its supervisor, and nobody else's."""

import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from fluxctl.runs.files import write_json
from fluxctl.runs.process import Grace
from fluxctl.runs.records import ProcessMark
from fluxctl.runs.strays import await_strays, end_strays, find_strays, settle

pytestmark = pytest.mark.feature("E23")
GONE = ProcessMark.of(os.getpid()).__class__(ProcessMark.of().host, 2**22 + 1, 1.0)
ELSEWHERE = ProcessMark("another-host", 1, 1.0)


@pytest.fixture
def process():
    """A process that ignores TERM."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as child:
        child.stdout.readline()
        yield child
        child.kill()


def claim(run, process, supervisor, status="running"):
    record = replace(run.read_run(), process=process, supervisor=supervisor, status=status)
    write_json(run.run, record.to_json())


@pytest.mark.parametrize(
    ("engine", "supervisor", "status", "is_stray"),
    [
        ("alive", GONE, "running", True),
        ("alive", "alive", "running", False),
        ("alive", ELSEWHERE, "running", False),  # who looks after it cannot be seen from here
        ("alive", None, "running", False),
        ("alive", GONE, "ended", False),
        ("alive", GONE, "created", False),
        ("gone", GONE, "running", False),
        ("elsewhere", GONE, "running", False),
    ],
)
def test_a_stray_is_a_live_engine_whose_supervisor_is_gone(make_run, engine, supervisor, status, is_stray):
    marks = {"alive": ProcessMark.of(), "gone": GONE, "elsewhere": ELSEWHERE}
    run = make_run()
    claim(run, marks[engine], marks.get(supervisor, supervisor), status)
    assert [stray.folder.id for stray in find_strays(run.path.parent)] == ([run.id] if is_stray else [])


def test_the_maker_of_a_run_is_its_supervisor(make_run):
    record = make_run().read_run()
    assert record.supervisor == record.process == ProcessMark.of()


def test_a_later_process_of_the_same_number_is_no_stray(make_run, process):
    run = make_run()
    mark = ProcessMark.of(process.pid)
    claim(run, replace(mark, started=mark.started - 100), GONE)
    assert find_strays(run.path.parent) == []


def test_strays_are_ended_by_force_if_need_be(make_run, process):
    run = make_run()
    claim(run, ProcessMark.of(process.pid), GONE)
    strays = await_strays(run.path.parent, limit_s=0.2)
    assert [stray.process.pid for stray in strays] == [process.pid]
    end_strays(strays, Grace(term_s=0.3))
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE  # ours to reap
    assert find_strays(run.path.parent) == []
    assert settle(run.path.parent) == [run.id]
    assert run.read_verdict().verdict == "CRASHED"
    assert settle(run.path.parent) == []


def test_a_stray_that_ends_by_itself_is_awaited(make_run, process):
    run = make_run()
    claim(run, ProcessMark.of(process.pid), GONE)
    process.kill()
    assert await_strays(run.path.parent, limit_s=10) == []
