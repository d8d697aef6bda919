import pytest

from fluxctl.runs.records import EXIT_CODES, RunRecord, VerdictRecord
from fluxctl.types import Mode, Verdict


def test_every_verdict_has_an_exit_code():
    assert set(EXIT_CODES) == set(Verdict)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_verdicts_read_back(verdict):
    record = VerdictRecord(verdict, "why", 3, {"code": "x"}, {"bins": 1})
    assert VerdictRecord.from_json(record.to_json()) == record


def test_readers_are_lenient_about_fields_and_strict_about_meaning():
    data = {"verdict": "CONVERGED", "new": 1, "summary": None, "exit_code": None, "error": "text"}
    assert VerdictRecord.from_json(data) == VerdictRecord(Verdict.CONVERGED)
    with pytest.raises(ValueError, match="FINE"):
        VerdictRecord.from_json({"verdict": "FINE"})
    record = RunRecord("i", "r", "b", Mode.SIM, 0, "2026-01-01T00:00:00+00:00")
    assert RunRecord.from_json({**record.to_json(), "new": 1}) == record


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (VerdictRecord(Verdict.DID_NOT_CONVERGE, exit_code=1), 0),  # a finding
        (VerdictRecord(Verdict.DIVERGED), 1),
        (VerdictRecord(Verdict.CRASHED, exit_code=2, error={"code": "asset"}), 2),
        (VerdictRecord(Verdict.CRASHED, exit_code=4, error={"code": "bug"}), 4),
        (VerdictRecord(Verdict.CRASHED, exit_code=0, error={"code": "x"}), 3),
        (VerdictRecord(Verdict.INTERRUPTED), 130),
    ],
)
def test_what_launch_answers(record, code):
    assert record.launch_code == code
