"""Stages 3 and 3p: who is asked, and what controllers do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Rung, Status
from fluxctl.types import NS_PER_S, Mode

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]

# A field, and what the broken run has in it.
BROKEN = [
    pytest.param("D26", "selection", "num_chosen", 4, marks=pytest.mark.feature("D26")),
    pytest.param("D26", "selection", "in_flight", 1, id="D26-in_flight"),
    pytest.param("D27", "residence", "in_flight_after", 1, marks=pytest.mark.feature("D27")),
    pytest.param("D28", "selection", "chosen", [9, 8, 7, 6, 5], marks=pytest.mark.feature("D28")),
    pytest.param("D29", "selection", "detail.score", [5.0] * 5, marks=pytest.mark.feature("D29")),
    pytest.param("D30", "selection", "preferred_duration_s", 0.7, marks=pytest.mark.feature("D30")),
    pytest.param("D31", "agg_round", "trainer_speed_s", [0.2] * 5, marks=pytest.mark.feature("D31")),
    pytest.param("D32", "selection", "decision_fingerprint", "other", marks=pytest.mark.feature("D32")),
    pytest.param("D33", "selection", "chosen", lambda old, _: [c + 10 for c in old], marks=pytest.mark.feature("D33")),
    pytest.param(
        "D34",
        "agg_round",
        "contributor_intervals[].commit",
        lambda old, _: old + 10.0,
        marks=pytest.mark.feature("D34"),
    ),
    pytest.param("D35", "agg_round", "goal_count", 2, marks=pytest.mark.feature("D35")),
    pytest.param("D36", "agg_round", "goal", 6, marks=pytest.mark.feature("D36")),
    pytest.param("D37", "agg_round", "dynamic_c", 4, marks=pytest.mark.feature("D37")),
    pytest.param("D38", "agg_round", "num_eligible", 9, marks=pytest.mark.feature("D38")),
]


@pytest.mark.parametrize(("rung_id", "event", "path", "value"), BROKEN)
def test_one_field_makes_the_difference(
    rung_id: str, event: str, path: str, value: object, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    moving_goal = field_edit("agg_round", "goal", lambda _, cycle: 5 + cycle["cycle"] % 2)
    base = moving_goal if rung_id == "D36" else None
    assert check(rung_id, *pair(base, base)).status is Status.PASS
    finding = check(rung_id, *pair(base, field_edit(event, path, value)))
    assert finding.status is Status.FAIL
    assert finding.value is not None
    assert finding.message


@pytest.mark.parametrize("rung_id", ["D26", "D27", "D28", "D30", "D31", "D33", "D37", "D38"])
def test_distributions_of_few_samples_are_inconclusive(rung_id: str, check: Check, pair: Pair) -> None:
    few = pair(num_bins=1)
    finding = check(rung_id, *few)
    assert (finding.status, finding.detail["min_samples"]) == (Status.INCONCLUSIVE, 20)


def test_participation_counts_clients_on_the_axis_of_rounds(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    no_cadence = field_edit("agg_round", "commit_reason", None)
    left, right = pair(no_cadence, no_cadence)
    finding = check("D31", left, right)
    assert finding.status is Status.INCONCLUSIVE  # ten clients are fewer than twenty samples
    assert finding.n == 10
    shares = check("D31", left, right, Options(is_deterministic=False))
    assert (shares.status, shares.n) == (Status.PASS, 300)


@pytest.mark.parametrize(
    ("path", "value", "verdict"),
    [
        ("eligible_fingerprint", "other", "INPUT-DIVERGENCE"),
        ("decision_fingerprint", "other", "RNG-DESYNC"),
        ("chosen", [1, 2, 3, 4, 5], "RNG-DESYNC"),
        ("num_eligible", 3, "SEEDED-OK"),
    ],
)
def test_determinism_of_decisions_is_told_by_what_differs(
    path: str, value: object, verdict: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check("D32", *pair(None, field_edit("selection", path, value))).detail["verdict"] == verdict


def test_selectors_without_scores_are_skipped(check: Check, pair: Pair) -> None:
    def unguided(event: Event) -> Event:
        if event["event"] == "selection":
            event |= {"detail": {}, "preferred_duration_s": None}
        return event

    both = pair(unguided, unguided)
    assert {check(rung_id, *both).status for rung_id in ("D29", "D30")} == {Status.SKIP}


def test_fixed_goals_are_skipped_but_two_different_ones_are_not(
    check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check("D36", *pair()).status is Status.SKIP
    assert check("D36", *pair(None, field_edit("agg_round", "goal", 4))).status is Status.FAIL


class TestOverlap:
    """D34, R1."""

    def test_a_late_update_of_a_client_that_was_given_up_ends_there(self, check: Check, pair: Pair) -> None:
        def long_dispatched(event: Event) -> Event:  # all of the last cycle's clients, since the beginning
            if event["event"] == "agg_round" and event["cycle"] == 59:
                for interval in event["contributor_intervals"]:
                    interval["dispatch"] = 0.25
            return event

        def given_up(event: Event) -> Event:  # client 9, one of them, before it was asked again
            if event["event"] == "abandon" and event["t_ns"] < 2 * NS_PER_S:
                event |= {"client": 9, "dispatch_ns": NS_PER_S // 4}
            return long_dispatched(event)

        blamed, excused = (check("D34", *pair(None, edit)).detail["sim"] for edit in (long_dispatched, given_up))
        assert blamed["num_overlaps"] - excused["num_overlaps"] == 1

    def test_either_run_can_fail(self, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
        longer = field_edit("agg_round", "contributor_intervals[].commit", lambda old, _: old + 10.0)
        for left, right in (pair(longer), pair(None, longer)):
            finding = check("D34", left, right)
            assert (finding.status, finding.value) == (Status.FAIL, 1.0)

    def test_nobody_twice_is_skipped(self, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
        once = field_edit(
            "agg_round", "contributing_trainers", lambda old, cycle: [c + 100 * cycle["cycle"] for c in old]
        )
        assert check("D34", *pair(once, once)).status is Status.SKIP


def test_only_an_excess_of_the_simulation_is_a_fault(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    wasteful = field_edit("agg_round", "goal_count", 2)
    assert check("D35", *pair(wasteful, None)).status is Status.PASS
    assert check("D35", *pair(None, wasteful, modes=(Mode.REAL, Mode.SIM))).status is Status.FAIL
    left, right = pair(None, wasteful)
    assert check("D35", right, left).value == check("D35", left, right).value  # the real run is the measure


def test_no_more_bins_than_asked(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    late = field_edit("selection", "chosen", lambda old, e: [c + 10 for c in old] if e["t_ns"] > 20 * NS_PER_S else old)
    both = pair(None, late)
    assert check("D33", *both).value < 0.7
    assert check("D33", *both, Options(max_bin=12)).value == 1.0


def test_gates_and_tiers(rung_of: Callable[[str], Rung]) -> None:
    assert rung_of("D33").is_gated
    assert rung_of("D34").needs == ("D31",)
    assert rung_of("D31").needs == ("D26", "D15", "D28")
