"""Stage 4: what trainers do with their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Rung, Status
from fluxctl.parity.rungs.d40_phases import PHASES
from fluxctl.telemetry.columns import AbsentField
from fluxctl.types import Mode

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]


@pytest.mark.feature("D39")
def test_larger_budgets(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D39", *pair())
    assert (finding.status, finding.value, finding.n) == (Status.PASS, 1.0, 300)
    finding = check("D39", *pair(None, field_edit("trainer_round", "training_budget_s", lambda old, _: old * 1.3)))
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(1.3))


@pytest.mark.parametrize(
    ("rung", "path"),
    [
        pytest.param("D40", "wall.pre_train_s", marks=pytest.mark.feature("D40")),
        pytest.param("D41", "wall.to_device_s", marks=pytest.mark.feature("D41")),
        pytest.param("D42", "wall.train_s", marks=pytest.mark.feature("D42")),
        pytest.param("D43", "wall.fetch_s", marks=pytest.mark.feature("D43")),
        pytest.param("D44", "wall.from_device_s", marks=pytest.mark.feature("D44")),
        pytest.param("D45", "wall.post_train_s", marks=pytest.mark.feature("D45")),
    ],
)
def test_a_phase_that_costs_more(check: Check, pair: Pair, field_edit: FieldEdit, rung: str, path: str) -> None:
    long = field_edit("trainer_round", path, lambda old, event: 0.02 + event["stat_utility"] / 1000)
    longer = field_edit("trainer_round", path, lambda old, event: 0.023 + event["stat_utility"] / 1000)
    assert check(rung, *pair()).status is Status.PASS  # nobody waits for a millisecond
    assert check(rung, *pair(long, long)).status is Status.PASS
    finding = check(rung, *pair(long, longer))
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(0.6, abs=0.05))  # 3 of 5 ms of spread


def test_short_phases_are_equal_whatever_their_shape(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D42", *pair(None, field_edit("trainer_round", "wall.train_s", 0.005)))
    assert (finding.status, finding.value) == (Status.PASS, 1.0)


def test_fetching_is_only_reported(rung_of: Callable[[str], Rung]) -> None:
    assert [phase.id for phase in PHASES if rung_of(phase.id).tier.value == "DIAG"] == ["D43"]


@pytest.mark.feature("D46")
def test_the_table_of_phases(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D46", *pair())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    assert set(finding.detail["mean_s"][0]) == {phase.name for phase in PHASES}
    finding = check("D46", *pair(None, field_edit("trainer_round", "wall.train_s", 0.02)))
    assert finding.status is Status.WARN
    assert finding.value == pytest.approx(1 - 0.0026 / 0.0203, abs=0.01)


def test_a_phase_that_is_not_recorded_counts_as_nothing(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D46", *pair(field_edit("trainer_round", "wall.fetch_s", None))).status is Status.PASS

    def without(event: Event) -> Event:
        return event | {"wall": {"compute_s": 0.1}} if event["event"] == "trainer_round" else event

    with pytest.raises(AbsentField):
        check("D46", *pair(without))


@pytest.mark.feature("D47")
def test_a_machine_that_is_too_slow(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D47", *pair())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    slow = pair(field_edit("trainer_round", "wall.compute_s", 0.5))  # clients take 0.2 to 0.65 s
    finding = check("D47", *slow)
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(0.6))  # clients 0 to 5 of 10
    assert check("D48", *slow).status is Status.PASS


def test_the_wall_factor_shortens_real_budgets(check: Check, pair: Pair, make_config) -> None:
    fast = make_config(Mode.REAL, engine={"wall_factor": 1000.0})
    assert check("D47", *pair(configs=(fast, None))).status is Status.FAIL


@pytest.mark.feature("D48")
def test_steps_that_cost_more_than_modelled(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D48", *pair()).status is Status.PASS
    slow = pair(None, field_edit("trainer_round", "wall.compute_s", 0.5))
    assert check("D48", *slow).status is Status.FAIL
    assert check("D47", *slow).status is Status.PASS


def test_budgets_need_a_run_of_the_mode_and_modelled_durations(check: Check, pair: Pair, make_config) -> None:
    assert check("D47", *pair(modes=(Mode.SIM, Mode.SIM))).status is Status.SKIP
    assert check("D48", *pair(modes=(Mode.REAL, Mode.REAL))).status is Status.SKIP
    off = make_config(Mode.SIM, delays={"enabled": False})
    assert check("D48", *pair(configs=(None, off))).status is Status.SKIP


@pytest.mark.feature("D49")
def test_overruns_and_their_first_bin(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D49", *pair())
    assert (finding.status, finding.detail["first_bin"]) == (Status.PASS, {"real": None, "sim": None})
    late = field_edit("trainer_round", "wall.overran", lambda old, event: event["version"] >= 20)
    finding = check("D49", *pair(late))
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(1 / 3))
    assert finding.detail["first_bin"] == {"real": 21, "sim": None}
    assert "from bin 21 on" in finding.message


@pytest.mark.feature("D50")
@pytest.mark.parametrize(
    ("path", "change", "kind"),
    [
        ("dispatch_ns", None, "without a stamp"),
        ("dispatch_ns", lambda old, event: None if event["client"] == 3 else old, "without a stamp"),
        ("dispatch_ns", 0, "stuck at zero"),
        ("dispatch_ns", 1_700_000_000 * 10**9, "after the end"),
        ("dispatch_ns", lambda old, _: old + 1, "no such time"),
        ("wall.mode", "real", "other clock"),
    ],
)
def test_receipts_with_a_wrong_stamp(
    check: Check, pair: Pair, field_edit: FieldEdit, path: str, change: Any, kind: str
) -> None:
    assert check("D50", *pair()).status is Status.PASS
    finding = check("D50", *pair(None, field_edit("task_recv", path, change)))
    assert finding.status is Status.FAIL
    assert kind in finding.message


def test_no_receipts_are_no_stamps(check: Check, pair: Pair) -> None:
    def unheard(event: Event) -> Event | None:
        return None if event["event"] == "task_recv" else event

    assert check("D50", *pair(unheard)).status is Status.SKIP


@pytest.mark.parametrize("rung", ["D39", "D40", "D41", "D42", "D44", "D45"])
def test_few_samples_are_inconclusive(check: Check, pair: Pair, field_edit: FieldEdit, rung: str) -> None:
    other = field_edit("trainer_round", "training_budget_s", 9.0)
    finding = check(rung, *pair(other, num_bins=1))
    assert (finding.status, finding.n) == (Status.INCONCLUSIVE, 10)
    assert check(rung, *pair(other), Options(max_bin=1)).status is Status.INCONCLUSIVE


def test_phases_that_nobody_recorded_are_absent(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    with pytest.raises(AbsentField, match=r"trainer_round\.wall\.train_s"):
        check("D42", *pair(field_edit("trainer_round", "wall.train_s", None)))
