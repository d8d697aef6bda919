"""Each self-check passes on a real run and fails on a run that is broken in its way only."""

import json

import pytest

from fluxctl.analyses.sanity import SanityStatus, check_run, sanity
from fluxctl.errors import NothingToDoError
from fluxctl.runs.index import list_runs
from fluxctl.runs.wishes import StopWish
from fluxctl.types import Verdict

CHECKS = ["readable", "evaluations", "residence", "traffic", "commits", "passes", "verdict", "full_payloads"]


def failed(folder):
    return [finding.check for finding in check_run(folder) if finding.status is SanityStatus.FAIL]


def test_real_runs_pass_every_check(recorded_runs):
    for info in list_runs(recorded_runs):
        findings = check_run(info.folder)
        assert [finding.check for finding in findings] == CHECKS
        assert all(finding.is_ok for finding in findings), findings


def change_first(event, **fields):
    """A function that changes the first event of a kind."""
    done = []

    def change(item):
        if item["event"] == event and not done:
            done.append(1)
            return {**item, **fields}
        return item

    return change


def drop_first_after(event, number):
    seen = []

    def change(item):
        if item["event"] == event:
            seen.append(1)
            if len(seen) == number:
                return None
        return item

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (drop_first_after("agg_eval", 2), ["evaluations"]),
        (drop_first_after("verdict", 1), ["verdict"]),
        (drop_first_after("trainer_round", 5), ["passes"]),
        (drop_first_after("comm", 1), ["traffic"]),
        (change_first("residence", num_selected=-3), ["residence"]),
        (change_first("trainer_round", forward_passes=7), ["passes"]),
        (change_first("verdict", verdict="STALLED"), ["verdict"]),
        (lambda item: None if item["event"] == "trainer_round" else item, ["passes"]),
        (lambda item: None if item["event"] == "comm" else item, ["traffic"]),
        (lambda item: {**item, "direction": "down"} if item["event"] == "comm" else item, ["traffic"]),
    ],
)
def test_a_broken_stream_fails_its_check(run_copy, edit_events, change, expected):
    folder = run_copy()
    edit_events(folder, change)
    assert failed(folder) == expected


def test_a_client_in_flight_twice_is_found(run_copy, edit_events):
    folder = run_copy()

    def change(item):
        if item["event"] == "agg_round" and item["cycle"] == 1:
            first = item["contributor_intervals"][0]
            item["contributor_intervals"].append({**first, "dispatch": first["dispatch"] + 1e-6})
        return item

    edit_events(folder, change)
    assert failed(folder) == ["residence"]


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_given_up_client_is_free_from_then_on_and_one_that_was_not_is_busy(run_copy, edit_events, is_given_up):
    """A client is given up when its first stay should have ended; the late update counts after the second began."""
    folder = run_copy()
    stays = {}
    for line in folder.events.read_text().splitlines():
        for stay in json.loads(line).get("contributor_intervals", []):
            stays.setdefault(stay["client"], []).append(stay)
    first, second = next(of for of in stays.values() if len(of) > 1)[:2]
    end_ns = round(first["commit"] * 1e9)

    def change(item):
        if item["event"] == "agg_round" and first in item["contributor_intervals"]:
            item["contributor_intervals"].remove(first)
            item["contributor_intervals"].append({**first, "commit": second["commit"]})
            start_ns = round(first["dispatch"] * 1e9)
            gone = {"event": "abandon", "t_ns": end_ns, "client": first["client"], "dispatch_ns": start_ns}
            return [gone, item] if is_given_up else item
        return item

    edit_events(folder, change)
    assert ("residence" in failed(folder)) != is_given_up


def test_non_finite_evaluations_are_fine_only_where_the_verdict_says_so(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, change_first("agg_eval", test_loss=None))
    assert "evaluations" in failed(folder)
    verdict = json.loads(folder.verdict.read_text())
    folder.verdict.write_text(json.dumps({**verdict, "verdict": "DIVERGED"}))
    assert "evaluations" not in failed(folder)


@pytest.mark.parametrize("name", ["bins", "forward_passes", "bytes_up"])
def test_a_summary_that_disagrees_is_found(run_copy, name):
    folder = run_copy()
    verdict = json.loads(folder.verdict.read_text())
    verdict["summary"][name] += 1
    folder.verdict.write_text(json.dumps(verdict))
    assert len(failed(folder)) == 1


def test_a_verdict_that_the_rules_do_not_give_is_found(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: {**item, "verdict": "CONVERGED"} if item["event"] == "verdict" else item)
    verdict = json.loads(folder.verdict.read_text())
    folder.verdict.write_text(json.dumps({**verdict, "verdict": "CONVERGED"}))
    (finding,) = [finding for finding in check_run(folder) if not finding.is_ok]
    assert finding.message == "CONVERGED, but the stop rules say COMPLETED for these evaluations"


def test_a_verdict_that_a_watcher_gave_is_taken(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: {**item, "verdict": "STALLED"} if item["event"] == "verdict" else item)
    verdict = json.loads(folder.verdict.read_text())
    folder.verdict.write_text(json.dumps({**verdict, "verdict": "STALLED"}))
    assert failed(folder) == ["verdict"]
    StopWish("no progress for 2 h", Verdict.STALLED).write(folder)
    assert failed(folder) == []


def test_a_run_without_a_verdict_or_events(run_copy):
    folder = run_copy()
    folder.verdict.unlink()
    assert failed(folder) == ["verdict"]
    folder.events.unlink()
    with pytest.raises(NothingToDoError):
        check_run(folder)


def test_a_second_full_payload_fails_unless_it_was_asked_for(run_copy, edit_events):
    folder = run_copy()

    def twice(item):
        is_full = item["event"] == "comm" and item["payload"] == "weights"
        return [item, item] if is_full else item

    edit_events(folder, twice)
    assert "full_payloads" in failed(folder)
    text = folder.config.read_text()
    asked = text.replace("suppress_redundant_weights: true", "suppress_redundant_weights: false")
    assert asked != text
    folder.config.write_text(asked)
    assert "full_payloads" not in failed(folder)


def test_damaged_lines_are_found_and_fields_that_nobody_carries_named(run_copy, edit_events):
    folder = run_copy()
    with folder.events.open("a") as file:
        file.write('{"event":"agg_ev')
    assert failed(folder) == ["readable"]
    edit_events_of = run_copy_less(folder)
    assert [f.message for f in edit_events_of if f.check == "traffic"] == ["no event carries comm.bytes"]


def run_copy_less(folder):
    lines = [json.loads(line) for line in folder.events.read_text().splitlines()[:-1]]
    for line in lines:
        line.pop("bytes", None)
    folder.events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return check_run(folder)


def test_the_analysis_says_it_in_one_sentence(run_copy):
    folder = run_copy()
    good = sanity(folder)
    assert good.is_ok
    assert good.conclusion == "Events, summary and verdict tell one story: 8 checks, none failed."
    folder.verdict.unlink()
    bad = sanity(folder)
    assert not bad.is_ok
    assert bad.conclusion == "The run must not be used: verdict failed of 8 checks."
    assert [finding["check"] for finding in bad.data["findings"]] == CHECKS
