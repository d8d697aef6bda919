"""Stage 9: budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.config.model import Config
from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Status
from fluxctl.types import Mode

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]


@pytest.fixture
def limited(make_config: Callable[..., Config]) -> Callable[..., tuple[Config, Config]]:
    """Configurations of a pair with these limits."""

    def build(**limits: Any) -> tuple[Config, Config]:
        real, sim = (make_config(mode, limits=limits) for mode in (Mode.REAL, Mode.SIM))
        return real, sim

    return build


@pytest.mark.feature("D74")
def test_a_cap_that_ends_a_run_early_warns(
    check: Check, pair: Pair, limited: Callable[..., tuple[Config, Config]]
) -> None:
    used_s = pair()[0].columns.last_ns / 1e9
    used_up = pair(configs=limited(max_bins=30, max_runtime_s=used_s))
    assert check("D74", *used_up).status is Status.PASS
    early = pair(configs=limited(max_bins=30, max_runtime_s=1.1 * used_s))
    finding = check("D74", *early)
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(1 / 1.1))


def test_rounds_are_a_cap_too(check: Check, pair: Pair, limited: Callable[..., tuple[Config, Config]]) -> None:
    assert check("D74", *pair(configs=limited(max_rounds=3))).status is Status.WARN
    assert check("D74", *pair(configs=limited(max_rounds=4))).status is Status.PASS


def test_without_a_cap_there_is_nothing_to_ask(
    check: Check, pair: Pair, limited: Callable[..., tuple[Config, Config]]
) -> None:
    assert check("D74", *pair(configs=limited(max_bins=None))).status is Status.SKIP


@pytest.mark.feature("D75")
def test_a_wall_budget_that_is_overrun_fails(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D75", *pair()).status is Status.PASS
    finding = check("D75", *pair(field_edit("agg_round", "wall.wall_s", 1.3 * 1200.0)))  # 600 s, and 600 s around it
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(0.3))


def test_the_wall_of_a_light_simulation_is_no_matter(
    check: Check, pair: Pair, field_edit: FieldEdit, make_config: Callable[..., Config]
) -> None:
    slow = field_edit("agg_round", "wall.wall_s", 1e6)
    assert check("D75", *pair(None, slow)).status is Status.PASS
    measured = make_config(Mode.SIM, engine={"charge_compute": "measured"})
    assert check("D75", *pair(None, slow, configs=(None, measured))).status is Status.FAIL


def test_a_simulation_begins_nothing_after_its_budget(
    check: Check, pair: Pair, limited: Callable[..., tuple[Config, Config]]
) -> None:
    left, right = pair()
    ends_s = right.cycles.ints("t_ns") / 1e9
    real, _ = limited(max_bins=30)
    _, just = limited(max_runtime_s=float(ends_s[-2]))
    _, less = limited(max_runtime_s=float(ends_s[-2]) / 1.3)
    assert check("D75", *pair(configs=(real, just))).value == 0.0
    assert check("D75", *pair(configs=(real, less))).status is Status.FAIL


def test_an_unknown_budget_is_skipped(check: Check, pair: Pair) -> None:
    left, right = pair()
    unknown = Observed("sim", right.mode, right.columns)
    assert check("D75", left, unknown).status is Status.SKIP
