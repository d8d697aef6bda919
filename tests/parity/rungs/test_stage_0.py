"""Stage 0: the measurements are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Rung, Status
from fluxctl.types import Mode

Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[dict[str, Any]], dict[str, Any]]]


@pytest.mark.feature("D1")
def test_a_field_that_no_event_carries_is_named(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D1", *pair())
    assert (finding.status, finding.n) == (Status.PASS, 12)
    finding = check("D1", *pair(None, field_edit("selection", "num_eligible", None)))
    assert (finding.status, finding.value) == (Status.FAIL, 1.0)
    assert "sim: selection.num_eligible" in finding.message


def test_one_name_of_a_field_is_enough(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D1", *pair(field_edit("trainer_round", "wall.train_s", None))).status is Status.PASS
    assert check("D1", *pair(field_edit("trainer_round", "training_budget_s", None))).status is Status.PASS


def test_only_a_real_run_needs_a_measured_span(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    unmeasured = field_edit("agg_round", "wall.intrinsic_span_s", None)
    assert check("D1", *pair(None, unmeasured)).status is Status.PASS
    assert check("D1", *pair(unmeasured, None)).status is Status.FAIL
    assert check("D1", *pair(unmeasured, None, modes=(Mode.SIM, Mode.SIM))).status is Status.PASS


def test_an_empty_run_lacks_everything(check: Check, pair: Pair) -> None:
    nothing = pair(lambda event: None)
    assert check("D1", *nothing).value == 12
    assert check("D2", *nothing).status is Status.FAIL


@pytest.mark.feature("D2")
def test_a_run_without_engine_time_fails_loudly(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D2", *pair())
    assert (finding.status, finding.value) == (Status.PASS, 60.0)
    finding = check("D2", *pair(None, field_edit("agg_round", "engine_s", None)))
    assert (finding.status, finding.value) == (Status.FAIL, 0.0)


# Rungs of stages 0, 1, 2 and 4 that depend on others.
NEEDS = {
    "D2": "D1",
    "D3": "D2",
    "D4": "D2",
    "D5": "D4",
    "D7": "D6 D3",
    "D8": "D6 D3",
    "D9": "D6 D3",
    "D10": "D8",
    "D11": "D10",
    "D12": "D11",
    "D14": "D13",
    "D15": "D14",
    "D16": "D10",
    "D17": "D16",
    "D18": "D16",
    "D23": "D16",
    "D42": "D39",
    "D47": "D39",
    "D48": "D39",
    "D49": "D47 D48",
    "D50": "D2",
}


def test_rungs_depend_on_what_they_build_on(rung_of: Callable[[str], Rung]) -> None:
    ids = [f"D{number}" for number in (*range(1, 26), *range(39, 51))]
    assert {rung_id: " ".join(rung_of(rung_id).needs) for rung_id in ids} == {i: NEEDS.get(i, "") for i in ids}


def test_questions_and_consequences_are_sentences(rung_of: Callable[[str], Rung]) -> None:
    for number in (*range(1, 26), *range(39, 51)):
        found = rung_of(f"D{number}")
        assert found.question.endswith("?")
        assert found.broken.endswith(".")
