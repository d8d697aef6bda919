"""Stages 6 and 6p: commits, staleness, cohorts, and the variance gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Rung, Status
from fluxctl.types import NS_PER_S

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]


def later(seconds: float) -> Callable[[int, Event], int]:
    return lambda old, _: old + round(seconds * NS_PER_S)


def flipped(old: list[int], cycle: Event) -> list[int]:
    """The order of one cycle's cohort the other way round."""
    return old[::-1] if cycle["cycle"] == 40 else old


BROKEN = [
    pytest.param(
        "D54", "agg_round", "visibility_lag_s", lambda old, _: [s + 3 for s in old], marks=pytest.mark.feature("D54")
    ),
    pytest.param("D55", "agg_eval", "t_ns", later(3), marks=pytest.mark.feature("D55")),
    pytest.param("D56", "agg_round", "staleness", [2] * 5, marks=pytest.mark.feature("D56")),
    pytest.param(
        "D56", "agg_round", "staleness", lambda old, c: [-1, *old[1:]] if c["cycle"] == 3 else old, id="D56-negative"
    ),
    pytest.param("D57", "withheld_delivery", "due_ns", later(1), marks=pytest.mark.feature("D57")),
    pytest.param("D57", "withheld_delivery", "delay_s", -0.1, id="D57-negative"),
    pytest.param("D58", "withheld_delivery", "commit_ns", later(31), marks=pytest.mark.feature("D58")),
    pytest.param("D58", "withheld_delivery", "commit_ns", later(-2), id="D58-before"),
    pytest.param(
        "D59",
        "agg_round",
        "contributing_trainers",
        lambda old, c: [*old[1:], 99] if c["cycle"] == 7 else old,
        marks=pytest.mark.feature("D59"),
    ),
    pytest.param("D60", "agg_round", "contributing_trainers", flipped, marks=pytest.mark.feature("D60")),
    pytest.param("D61", "agg_round", "contributing_trainers", flipped, marks=pytest.mark.feature("D61")),
    pytest.param("D61", "agg_round", "cycle_bin", lambda old, c: old + (c["cycle"] == 50), id="D61-bin"),
    pytest.param("D61", "agg_round", "cycle_iteration", lambda old, c: old + (c["cycle"] == 50), id="D61-iteration"),
    pytest.param("D61", "agg_round", "goal_count", lambda old, c: old - (c["cycle"] == 50), id="D61-count"),
    pytest.param("D61", "agg_round", "var_good", lambda old, c: old and c["cycle"] != 51, id="D61-var_good"),
    pytest.param(
        "D61", "agg_round", "commit_reason", lambda old, c: "cap" if c["cycle"] == 51 else old, id="D61-reason"
    ),
    pytest.param("D61", "agg_round", "var", lambda old, c: old * (1.002 if c["cycle"] == 50 else 1), id="D61-var"),
    pytest.param("D62", "agg_round", "commit_reason", lambda old, _: old or "cap", marks=pytest.mark.feature("D62")),
    pytest.param("D63", "agg_round", "var", lambda old, _: old * 1.03, marks=pytest.mark.feature("D63")),
    pytest.param("D64", "agg_round", "cached_pool_size", 0, marks=pytest.mark.feature("D64")),
    pytest.param("D65", "agg_round", "commit_reason", lambda old, _: old and "cap", marks=pytest.mark.feature("D65")),
    pytest.param("D66", "agg_round", "var", 1.5, marks=pytest.mark.feature("D66")),
]


@pytest.mark.parametrize(("rung_id", "event", "path", "value"), BROKEN)
def test_one_field_makes_the_difference(
    rung_id: str, event: str, path: str, value: object, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check(rung_id, *pair()).status is Status.PASS
    finding = check(rung_id, *pair(None, field_edit(event, path, value)))
    assert finding.status is Status.FAIL
    assert finding.message


@pytest.mark.parametrize("rung_id", ["D54", "D55", "D56", "D59", "D62", "D63", "D65", "D66"])
def test_distributions_of_few_samples_are_inconclusive(rung_id: str, check: Check, pair: Pair) -> None:
    finding = check(rung_id, *pair(num_bins=1))
    assert (finding.status, finding.detail["min_samples"]) == (Status.INCONCLUSIVE, 20)


@pytest.mark.parametrize("rung_id", ["D57", "D58", "D61"])
def test_one_sample_is_enough_for_what_is_exact(rung_id: str, check: Check, pair: Pair) -> None:
    assert check(rung_id, *pair(num_bins=1)).status is Status.PASS


@pytest.mark.parametrize("rung_id", ["D57", "D58"])
def test_without_withheld_updates_there_is_nothing_to_ask(rung_id: str, check: Check, pair: Pair) -> None:
    def none(event: Event) -> Event | None:
        return None if event["event"] == "withheld_delivery" else event

    assert check(rung_id, *pair(none, none)).status is Status.SKIP


def test_short_waits_pass_whatever_their_distribution(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    none, some = (field_edit("agg_round", "visibility_lag_s", [lag] * 5) for lag in (0.0, 0.09))
    finding = check("D54", *pair(none, some))
    assert (finding.status, finding.value) == (Status.PASS, 1.0)


class TestCohortSequence:
    """D61."""

    def test_the_first_difference_is_told_with_both_sides(
        self, check: Check, pair: Pair, field_edit: FieldEdit
    ) -> None:
        finding = check("D61", *pair(None, field_edit("agg_round", "contributing_trainers", flipped)))
        difference = finding.detail["first_difference"]
        assert (difference["cycle"], difference["in"]) == (40, ["order"])
        assert difference["real"]["clients"] == difference["sim"]["clients"][::-1]
        assert finding.detail["set"] == 1.0
        assert finding.detail["order"] == pytest.approx(59 / 60)
        assert "cycle 40 in order" in finding.message

    def test_a_variance_within_a_thousandth_is_the_same(self, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
        assert check("D61", *pair(None, field_edit("agg_round", "var", lambda v, _: v * 1.0009))).status is Status.PASS

    def test_undefined_variances_are_equal_to_each_other_only(
        self, check: Check, pair: Pair, field_edit: FieldEdit
    ) -> None:
        undefined = field_edit("agg_round", "var", None)
        assert check("D61", *pair(undefined, undefined)).status is Status.PASS
        assert check("D61", *pair(None, undefined)).detail["variance"] == 0.0

    def test_a_run_that_was_ended_earlier_is_compared_up_to_there(
        self, check: Check, pair: Pair, field_edit: FieldEdit
    ) -> None:
        interrupted, _ = pair(field_edit("verdict", "verdict", "INTERRUPTED"), num_bins=20)
        _, long = pair(num_bins=30)
        finding = check("D61", interrupted, long)
        assert (finding.status, finding.n) == (Status.PASS, 40)

    @pytest.mark.parametrize("verdict", ["COMPLETED", "STARVED"])
    def test_a_run_that_ended_earlier_by_itself_is_not_the_same(
        self, verdict: str, check: Check, pair: Pair, field_edit: FieldEdit
    ) -> None:
        over, _ = pair(field_edit("verdict", "verdict", verdict), num_bins=20)
        _, long = pair(num_bins=30)
        finding = check("D61", over, long)
        assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(40 / 60))

    def test_the_open_bin_is_left_out(self, check: Check, pair: Pair) -> None:
        def cut(event: Event) -> Event | None:  # the last commit did not come any more
            return None if event["event"] == "agg_round" and event["cycle"] == 59 else event

        finding = check("D61", *pair(cut, cut))
        assert (finding.status, finding.n) == (Status.PASS, 58)

    def test_fewer_cycles_in_the_same_time_are_a_difference(self, check: Check, pair: Pair) -> None:
        def cut(event: Event) -> Event | None:
            return None if event["event"] == "agg_round" and event["cycle"] >= 56 else event

        finding = check("D61", *pair(None, cut))
        assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(56 / 60))
        assert "cycles by then: real 60, sim 56" in finding.message

    def test_bins_are_a_limit(self, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
        both = pair(None, field_edit("agg_round", "contributing_trainers", flipped))
        assert check("D61", *both, Options(max_bin=20)).status is Status.PASS
        assert check("D61", *both, Options(max_bin=21)).status is Status.FAIL

    def test_an_additional_iteration_shifts_nothing(self, check: Check, pair: Pair) -> None:
        """Cycles are paired by what they are: one iteration more in a bin leaves all later ones in place."""

        def doubled(event: Event) -> Event:
            if event["event"] == "agg_round" and event["cycle"] == 21:
                event |= {"commit_reason": None}
            return event

        finding = check("D61", *pair(None, doubled), Options(max_bin=10))
        assert finding.value == 1.0

    def test_without_cadence_it_is_skipped(self, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
        assert check("D61", *pair(field_edit("agg_round", "cycle_bin", None))).status is Status.SKIP

    def test_without_a_common_commit_it_is_inconclusive(self, check: Check, pair: Pair) -> None:
        def at_once(event: Event) -> Event:  # somebody ended the run before anything was committed
            return event | {"t_ns": 0, "verdict": "INTERRUPTED"} if event["event"] == "verdict" else event

        finding = check("D61", *pair(at_once, None))
        assert (finding.status, finding.n, finding.detail["min_samples"]) == (Status.INCONCLUSIVE, 0, 1)


def test_first_divergence_names_the_commit(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D60", *pair(None, field_edit("agg_round", "contributing_trainers", flipped)))
    assert finding.value == 20.0  # cycles 40 and 41 lead to commit 20, counted from 0
    assert finding.detail["sim"]["cycle"] == 40


def test_gates_and_dependencies(rung_of: Callable[[str], Rung]) -> None:
    assert rung_of("D59").is_gated
    assert not rung_of("D61").is_gated
    assert rung_of("D61").needs == ("D31", "D51", "D34", "D62")
    assert rung_of("D66").needs == ("D62", "D63")
