"""A real run is checked by itself before anything is compared with it."""

from __future__ import annotations

import pytest

from fluxctl.parity.admission import admit
from fluxctl.parity.result import Status
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.records import VerdictRecord
from fluxctl.types import Mode, Verdict


@pytest.fixture
def admission(tmp_path, make_run, observe):
    def of(edit=None, notes="", verdict=Verdict.COMPLETED):
        folder = make_run(tmp_path / "real", Mode.REAL, edit)
        (folder / "wall.jsonl").write_text(notes)
        RunFolder(folder).write_verdict(VerdictRecord(verdict, "because"))
        return admit(observe(folder, Mode.REAL))

    return of


def at(event, number, **changes):
    """An edit of the ``number``-th event of a kind."""
    seen = 0

    def edit(line):
        nonlocal seen
        if line["event"] == event:
            seen += 1
            if seen == number:
                return line | changes
        return line

    return edit


def leave_out(event, number):
    seen = 0

    def edit(line):
        nonlocal seen
        seen += line["event"] == event
        return None if line["event"] == event and seen == number else line

    return edit


pytestmark = pytest.mark.feature("A29")


def test_a_run_that_kept_its_rules_is_admitted_with_its_speedup_ceiling(admission) -> None:
    found = admission()
    assert found.is_admissible
    assert {check.status for check in found.checks} == {Status.PASS}
    # 300 steps of 2.5 ms on average, 60 aggregations of 1 ms, 30 evaluations of 2 ms; the run takes about 36 s
    assert found.speedup_ceiling == pytest.approx(36.15 / (300 * 0.0025 + 0.06 + 0.06), rel=0.05)


SLACK = '{"event":"reorder_slack_exhausted","client":3}\n'


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("concurrency", {"edit": at("selection", 9, in_flight=1)}, "6 clients were in flight at selection 9, C is 5"),
        ("selection", {"edit": at("selection", 9, num_chosen=4)}, "1 of 60 selections contradict"),
        ("selection", {"edit": at("selection", 9, num_candidates=4)}, "number 9"),
        ("selection", {"edit": at("selection", 9, chosen=[1, 2, 3, 4, 1])}, "number 9"),
        ("dispatch", {"edit": leave_out("dispatch", 9)}, "1 clients were not sent what was decided"),
        ("cycles", {"edit": at("agg_round", 9, goal_count=6)}, "1 of 60 cycles took more than K"),
        ("residence", {"edit": at("agg_round", 9, contributing_trainers=[7] * 5)}, "overlap"),
        ("order", {"notes": SLACK + '{"event":"progress"}\n' + SLACK}, "2 updates arrived too late"),
        ("ending", {"verdict": Verdict.CRASHED}, "CRASHED: because"),
    ],
)
def test_each_broken_rule_is_found_and_alone(admission, name, how, words) -> None:
    found = admission(**how)
    assert not found.is_admissible
    failed = {check.name: check.message for check in found.broken}
    assert words in failed.pop(name)
    assert set(failed) <= {"dispatch"}  # who is chosen twice or not at all is also sent too little


def test_a_controller_may_lower_concurrency_below_what_is_in_flight(admission) -> None:
    calm = {"in_flight": 5, "num_chosen": 0, "chosen": [], "effective_c": 3}
    assert "concurrency" not in {check.name for check in admission(at("selection", 9, **calm)).broken}


def test_a_retry_needs_no_selection(admission) -> None:
    again = None

    def edit(line):
        nonlocal again
        again = again or (line | {"attempt": 1} if line["event"] == "dispatch" else None)
        return line

    assert admission(edit).is_admissible
    assert again is not None


def test_a_run_that_was_stopped_is_as_good_as_its_events(admission) -> None:
    assert admission(verdict=Verdict.INTERRUPTED).is_admissible


def test_what_a_run_does_not_say_is_no_reason_to_refuse_it(tmp_path, make_run, observe) -> None:
    folder = make_run(tmp_path / "real", Mode.REAL, lambda line: line if line["event"] != "selection" else None)
    (folder / "wall.jsonl").unlink()
    (folder / "verdict.json").unlink()
    found = admit(observe(folder, Mode.REAL))
    assert found.is_admissible
    skipped = {check.name for check in found.checks if check.status is Status.SKIP}
    assert skipped == {"ending", "concurrency", "selection", "dispatch", "order"}
