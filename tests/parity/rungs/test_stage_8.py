"""Stage 8: where the runs have come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Status

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]


def changed(old: str, cycle: Event) -> str:
    return "0" * 8 if cycle["cycle"] == 41 else old


BROKEN = [
    pytest.param("D70", "agg_round", "t_ns", lambda old, _: old * 2, marks=pytest.mark.feature("D70")),
    pytest.param("D70", "agg_round", "contributing_trainers", lambda old, _: [c % 8 for c in old], id="D70-clients"),
    pytest.param("D71", "agg_round", "goal_count", 4, marks=pytest.mark.feature("D71")),
    pytest.param("D72", "agg_eval", "test_accuracy", lambda old, _: old - 0.06, marks=pytest.mark.feature("D72")),
    pytest.param("D73", "agg_eval", "test_loss", lambda old, _: old + 0.16, marks=pytest.mark.feature("D73")),
    pytest.param("model_checksum", "agg_round", "model_checksum", changed, id="model_checksum"),
]


@pytest.mark.parametrize(("rung_id", "event", "path", "value"), BROKEN)
def test_one_field_makes_the_difference(
    rung_id: str, event: str, path: str, value: object, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check(rung_id, *pair()).status in (Status.PASS, Status.LOW_CONF)
    finding = check(rung_id, *pair(None, field_edit(event, path, value)))
    assert finding.status is Status.FAIL
    assert finding.message


@pytest.mark.parametrize("rung_id", ["D72", "D73"])
def test_curves_of_short_runs_deserve_little_confidence(
    rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check(rung_id, *pair()).status is Status.LOW_CONF
    long = field_edit("agg_round", "t_ns", lambda old, _: old * 1000)
    assert check(rung_id, *pair(long, long)).status is Status.PASS


@pytest.mark.parametrize("rung_id", ["D72", "D73"])
def test_the_mean_has_an_interval_that_allows_for_neighbours_that_are_alike(
    rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    """A curve that is off for half of the time: blocks of ten know less of the mean than thirty single values do."""
    path = "test_accuracy" if rung_id == "D72" else "test_loss"
    away = field_edit("agg_eval", path, lambda old, event: old + 0.02 * (event["version"] > 15))
    detail = check(rung_id, *pair(None, away)).detail
    low, high = detail["mean_interval"]
    assert 0 <= low < detail["mean"] < high <= 0.02
    assert high - low > 1.2 * 4 * 0.01 / 31**0.5  # of independent values: twice 1.96 standard errors


@pytest.mark.parametrize("rung_id", ["D72", "D73"])
def test_curves_without_a_common_version_are_skipped(
    rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    elsewhere = field_edit("agg_eval", "version", lambda old, _: old + 1000)
    assert check(rung_id, *pair(None, elsewhere)).status is Status.SKIP


@pytest.mark.parametrize("rung_id", ["D70", "D71", "model_checksum"])
def test_a_run_that_was_ended_earlier_is_compared_up_to_there(
    rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    interrupted, _ = pair(field_edit("verdict", "verdict", "INTERRUPTED"), num_bins=20)
    _, long = pair(num_bins=30)
    assert check(rung_id, interrupted, long).status is Status.PASS


@pytest.mark.parametrize("rung_id", ["D70", "D71", "model_checksum"])
def test_a_run_that_ran_out_of_clients_will_not_come_further(
    rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    starved = field_edit("verdict", "verdict", "STARVED")
    short, _ = pair(starved, num_bins=20)
    _, long = pair(num_bins=30)
    assert check(rung_id, short, long).status is Status.FAIL
    _, equally_short = pair(None, starved, num_bins=20)
    assert check(rung_id, short, equally_short).status is Status.PASS


@pytest.mark.parametrize("rung_id", ["D70", "D71"])
def test_no_bin_on_one_side_is_a_difference(rung_id: str, check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    never = field_edit("agg_round", "t_ns", lambda old, _: old * 1000)
    assert check(rung_id, *pair(None, never)).status is Status.FAIL


def test_the_first_other_model_is_named(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    both = pair(None, field_edit("agg_round", "model_checksum", changed))
    finding = check("model_checksum", *both)
    assert finding.detail["first_difference"]["commit"] == 21
    assert finding.value == pytest.approx(29 / 30)
    assert check("model_checksum", *both, Options(max_bin=20)).status is Status.PASS


def test_models_without_a_checksum_are_not_the_same(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    forgotten = field_edit("agg_round", "model_checksum", lambda old, cycle: None if cycle["cycle"] == 41 else old)
    assert check("model_checksum", *pair(forgotten, forgotten)).status is Status.FAIL
