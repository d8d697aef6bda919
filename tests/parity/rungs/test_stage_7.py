"""Stages 7 and 7p: utilities and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Rung, Status
from fluxctl.telemetry.columns import AbsentField

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]

BROKEN = [
    pytest.param("D67", "stat_utility", lambda old, _: [value + 2 for value in old], marks=pytest.mark.feature("D67")),
    pytest.param("D68", "grad_norm", lambda old, _: old and old * 1.2, marks=pytest.mark.feature("D68")),
    pytest.param("D69", "grad_pool_size", 4, marks=pytest.mark.feature("D69")),
]


@pytest.mark.parametrize(("rung_id", "path", "value"), BROKEN)
def test_one_field_makes_the_difference(
    rung_id: str, path: str, value: object, check: Check, pair: Pair, field_edit: FieldEdit
) -> None:
    assert check(rung_id, *pair()).status is Status.PASS
    finding = check(rung_id, *pair(None, field_edit("agg_round", path, value)))
    assert finding.status is Status.FAIL
    assert finding.message


@pytest.mark.parametrize("rung_id", ["D68", "D69"])
def test_few_commits_are_inconclusive(rung_id: str, check: Check, pair: Pair) -> None:
    assert check(rung_id, *pair(num_bins=19)).status is Status.INCONCLUSIVE


def test_pools_are_those_of_committing_cycles(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    in_retries = field_edit("agg_round", "grad_pool_size", lambda old, cycle: old if cycle["commit_reason"] else 1)
    assert check("D69", *pair(None, in_retries)).status is Status.PASS


def test_a_field_that_was_never_written_is_absent(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    with pytest.raises(AbsentField):
        check("D68", *pair(None, field_edit("agg_round", "grad_norm", None)))


def test_utility_is_gated(rung_of: Callable[[str], Rung]) -> None:
    assert rung_of("D67").is_gated
