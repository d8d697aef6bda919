"""The stop file: what is written is what is read, and whatever a person writes is a reason."""

import pytest

from fluxctl.runs.wishes import RULED, StopWish, read_wish
from fluxctl.types import Verdict


@pytest.mark.parametrize("verdict", [*RULED, Verdict.INTERRUPTED])
def test_a_wish_comes_back(make_run, verdict):
    run = make_run()
    assert read_wish(run) is None
    StopWish("no progress: for 2 h", verdict).write(run)
    assert read_wish(run) == StopWish("no progress: for 2 h", verdict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "asked to stop"),
        ("  \n", "asked to stop"),
        ("I need the cores\n", "I need the cores"),
        ("note: enough", "note: enough"),
        ("CRASHED: a joke", "CRASHED: a joke"),  # nobody can wish for that
        ("BLOCKED: a joke", "BLOCKED: a joke"),
        ("STALLED", "STALLED"),
    ],
)
def test_whatever_a_person_writes_interrupts(make_run, text, reason):
    run = make_run()
    run.stop.write_text(text)
    assert read_wish(run) == StopWish(reason)


def test_bytes_that_are_no_text_stop_as_well(make_run):
    run = make_run()
    run.stop.write_bytes(b"\xff\xfe")
    assert read_wish(run).verdict is Verdict.INTERRUPTED
