"""Stage 5: order of arrival, and the aggregation goal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Status
from fluxctl.types import Mode

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]


@pytest.mark.feature("D51")
def test_physical_order_warns(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D51", *pair()).status is Status.PASS
    finding = check("D51", *pair(None, field_edit("agg_round", "wall.arrival_order", lambda old, _: old[::-1])))
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(-1.0))


def test_order_without_recorded_arrivals_is_that_of_the_commit(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    unknown = field_edit("agg_round", "wall.arrival_order", None)

    def reversed_commits(event: Event) -> Event:
        if event["event"] == "agg_round":
            event["contributing_trainers"].reverse()
        return unknown(event)

    assert check("D51", *pair(unknown, unknown)).status is Status.PASS
    assert check("D51", *pair(unknown, reversed_commits)).status is Status.WARN


def test_order_of_one_is_no_order(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    one = field_edit("agg_round", "wall.arrival_order", [3])
    assert check("D51", *pair(one, one)).status is Status.SKIP


@pytest.mark.feature("D52")
def test_goal_of_the_real_run(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D52", *pair()).status is Status.PASS
    too_many = pair(field_edit("agg_round", "goal_count", 6))
    assert check("D52", *too_many).status is Status.FAIL
    assert check("D53", *too_many).status is Status.PASS


@pytest.mark.feature("D53")
def test_goal_of_the_simulated_run(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D53", *pair()).status is Status.PASS
    once = pair(None, field_edit("agg_round", "goal_count", lambda old, cycle: 6 if cycle["cycle"] == 17 else old))
    finding = check("D53", *once)
    assert (finding.status, finding.value) == (Status.FAIL, 1.0)
    assert check("D52", *once).status is Status.PASS


def test_goal_of_a_clock_that_nobody_used_is_skipped(check: Check, pair: Pair) -> None:
    sims = pair(modes=(Mode.SIM, Mode.SIM))
    assert [check(rung_id, *sims).status for rung_id in ("D52", "D53")] == [Status.SKIP, Status.PASS]


def test_goal_comes_from_the_configuration_if_events_do_not_say(
    check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    unsaid = field_edit("agg_round", "goal", None)
    assert check("D53", *pair(unsaid, unsaid)).status is Status.PASS
