"""Stage 1: the clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.parity.bounds import Bound
from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Rung, Status
from fluxctl.parity.rungs.d10_per_round_advance import tolerant_ks
from fluxctl.telemetry.columns import AbsentField
from fluxctl.types import Mode

Event = dict[str, Any]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]
SPAN = "wall.intrinsic_span_s"
SIMS, REALS = (Mode.SIM, Mode.SIM), (Mode.REAL, Mode.REAL)


def in_every_second_bin(factor: float, other: float) -> Callable[[float, Event], float]:
    return lambda old, cycle: old * (factor if cycle["cycle"] // 2 % 2 else other)


@pytest.mark.feature("D3")
def test_engine_time_that_runs_back(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D3", *pair()).status is Status.PASS
    back = field_edit("agg_round", "engine_s", lambda old, cycle: old - 2 if cycle["cycle"] == 20 else old)
    finding = check("D3", *pair(None, back))
    assert (finding.status, finding.value) == (Status.FAIL, 1.0)
    assert finding.detail["sim"]["cycle"] == 20


def test_the_order_is_that_of_the_cycle_counter(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    swapped = {7: 8, 8: 7}
    other = field_edit("agg_round", "cycle", lambda old, _: swapped.get(old, old))
    assert check("D3", *pair(None, other)).status is Status.FAIL


def test_no_stamps_are_no_order(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    with pytest.raises(AbsentField, match=r"agg_round\.engine_s"):
        check("D3", *pair(None, field_edit("agg_round", "engine_s", None)))


@pytest.mark.feature("D4")
def test_a_simulation_that_crawls(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D4", *pair())
    assert finding.status is Status.PASS
    assert finding.value == pytest.approx(59, abs=6)  # 10 ms of wall time for a cycle of some 0.6 s
    finding = check("D4", *pair(None, field_edit("agg_round", "wall.wall_s", lambda old, _: old * 1e5)))
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(59e-5, rel=0.1))


def test_a_rate_without_bound(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    frozen = pair(None, field_edit("agg_round", "wall.wall_s", 1.0))
    assert check("D4", *frozen).status is Status.FAIL
    assert check("D5", *frozen).status is Status.SKIP


def test_only_a_simulation_has_a_sim_rate(check: Check, pair: Pair) -> None:
    reals = pair(modes=REALS)
    assert [check(rung, *reals).status for rung in ("D4", "D5")] == [Status.SKIP, Status.SKIP]


@pytest.mark.feature("D5")
def test_a_simulation_that_is_slower_than_reality(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D5", *pair())
    assert finding.status is Status.PASS
    assert finding.detail["wall_speedup"] == pytest.approx(59, abs=6)
    slow = pair(None, field_edit("agg_round", "wall.wall_s", lambda old, _: old * 100))
    finding = check("D5", *slow)
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(0.59, abs=0.06))
    assert check("D4", *slow).status is Status.PASS


def test_two_simulations_have_no_wall_speedup(check: Check, pair: Pair) -> None:
    assert check("D5", *pair(modes=SIMS)).detail["wall_speedup"] is None


@pytest.mark.feature("D6")
def test_slower_clients(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D6", *pair())
    assert (finding.status, finding.value, finding.n) == (Status.PASS, 1.0, 300)

    def scaled(factor: float) -> tuple[Observed, Observed]:
        change = field_edit("agg_round", "trainer_speed_s", lambda old, _: [factor * value for value in old])
        return pair(None, change)

    finding = check("D6", *scaled(1.2))
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(1.2))
    assert check("D6", *scaled(0.8)).status is Status.WARN  # within the support, but of another shape
    assert check("D6", *scaled(1.2)[::-1]).status is Status.FAIL  # the wall run is the reference wherever it stands


@pytest.mark.feature("D7")
def test_modelled_time_that_does_not_explain_the_advance(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D7", *pair()).status is Status.PASS
    shorter = field_edit("agg_round", "trainer_speed_s", lambda old, _: [0.5 * value for value in old])
    finding = check("D7", *pair(None, shorter))
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(0.5, rel=0.02))


@pytest.mark.feature("D8")
def test_overhead_that_is_not_modelled(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D8", *pair())
    assert (finding.status, finding.n) == (Status.PASS, 30)
    finding = check("D8", *pair(field_edit("agg_round", SPAN, lambda old, _: old * 1.2)))
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(0.2 / 1.2, rel=0.03))
    # 10 updates a bin
    real_s, sim_s = finding.detail["advance_s"]
    assert finding.detail["per_update_s"] == pytest.approx((real_s - sim_s) / 10)
    low_s, high_s = finding.detail["difference_interval_s"]
    assert 0 < low_s < real_s - sim_s < high_s


@pytest.mark.feature("D9")
def test_clients_that_wait_for_each_other(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D9", *pair())
    assert (finding.status, finding.detail["factors"]) == (Status.PASS, [pytest.approx(1, abs=0.01)] * 2)
    finding = check("D9", *pair(field_edit("agg_round", SPAN, lambda old, _: old * 2)))
    assert (finding.status, finding.value) == (Status.WARN, pytest.approx(0.5, abs=0.01))


@pytest.mark.feature("D10")
def test_bins_that_take_another_time(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D10", *pair()).status is Status.PASS
    uneven = pair(field_edit("agg_round", SPAN, in_every_second_bin(1.4, 0.6)))
    finding = check("D10", *uneven)
    assert (finding.status, finding.detail["mean_rel"] < 0.15) == (Status.FAIL, True)
    assert check("D8", *uneven).status is Status.PASS  # the total is right


def test_a_distance_of_just_the_limit_is_within_it_however_it_was_rounded() -> None:
    one, other = np.array([1.0] * 9 + [3]), np.array([1.0] * 7 + [2, 2, 3])
    distance = tolerant_ks(one, other)
    assert 0.2 < distance < 0.2 + 1e-12
    assert Bound("", distance, 0.2).holds
    assert not Bound("", 0.2 + 1e-6, 0.2).holds


def test_bins_that_all_take_longer(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D10", *pair(field_edit("agg_round", SPAN, lambda old, _: old * 1.3))).status is Status.FAIL


@pytest.mark.feature("D11")
def test_fewer_bins_in_a_second(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D11", *pair()).status is Status.PASS
    slower = pair(field_edit("agg_round", SPAN, lambda old, _: old * 1.07))
    finding = check("D11", *slower)
    assert (finding.status, finding.value) == (Status.FAIL, pytest.approx(0.07, abs=0.01))
    assert check("D8", *slower).status is Status.PASS


@pytest.mark.parametrize(("path", "side"), [(SPAN, 0), ("engine_s", 1)])
def test_no_clock_fails(check: Check, pair: Pair, field_edit: FieldEdit, path: str, side: int) -> None:
    edits = [None, None]
    edits[side] = field_edit("agg_round", path, None)
    finding = check("D11", *pair(*edits))
    assert (finding.status, finding.value) == (Status.FAIL, None)
    assert "no clock" in finding.message


@pytest.mark.feature("D12")
def test_drift_is_reported(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D12", *pair())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    late = field_edit("agg_round", "wall.wall_s", lambda old, cycle: old + (3 if cycle["cycle"] == 31 else 0))
    finding = check("D12", *pair(late))
    assert finding.status is Status.PASS  # never fails, by definition
    assert (finding.value, finding.detail["max_s"]) == (pytest.approx(0.1), pytest.approx(3.0))
    assert finding.detail["at_bin"] == 16


def test_drift_needs_a_wall_run(check: Check, pair: Pair) -> None:
    assert check("D12", *pair(modes=SIMS)).status is Status.SKIP
    assert check("D12", *pair(modes=REALS)).value == 0.0


def test_the_wall_factor_scales_the_measured_span(check: Check, pair: Pair, field_edit: FieldEdit, make_config) -> None:
    fast = make_config(Mode.REAL, engine={"wall_factor": 2.0})
    halved = field_edit("agg_round", SPAN, lambda old, _: old / 2)
    assert check("D11", *pair(halved, None, configs=(fast, None))).status is Status.PASS
    assert check("D11", *pair(None, None, configs=(fast, None))).status is Status.FAIL


def test_evaluations_are_part_of_the_measured_time(pair: Pair, field_edit: FieldEdit) -> None:
    plain, _ = pair(field_edit("agg_round", "wall.eval_s", 0.0))
    long, _ = pair(field_edit("agg_round", "wall.eval_s", lambda old, _: 1.0 if old else 0.0))
    # That of a commit lies behind it.
    assert list(long.intrinsic_s - plain.intrinsic_s) == pytest.approx(list(range(30)))


def test_an_async_span_holds_the_evaluation_before_it(pair: Pair, field_edit: FieldEdit, make_config) -> None:
    config = make_config(Mode.REAL, aggregation={"style": "async"})
    long, _ = pair(field_edit("agg_round", "wall.eval_s", 1.0), configs=(config, None))
    spans = long.cycles.numbers(SPAN)
    assert list(long.intrinsic_s) == pytest.approx(list(spans.cumsum()[long.is_commit]))


CLOCKS = ("D7", "D8", "D9", "D10", "D11", "D12")


@pytest.mark.parametrize("rung", CLOCKS)
def test_one_bin_is_too_short(check: Check, pair: Pair, rung: str) -> None:
    assert check(rung, *pair(num_bins=1)).status is Status.SKIP
    assert check(rung, *pair(), Options(max_bin=1)).status is Status.SKIP


@pytest.mark.parametrize("rung", CLOCKS)
def test_what_lies_behind_the_last_common_bin_does_not_count(
    check: Check, pair: Pair, field_edit: FieldEdit, rung: str
) -> None:
    odd = field_edit("agg_round", SPAN, lambda old, cycle: old * (1 if cycle["cycle"] < 40 else 50))
    assert check(rung, *pair(odd), Options(max_bin=20)).status is Status.PASS
    cut = field_edit("agg_round", "commit_reason", lambda old, cycle: old if cycle["cycle"] < 40 else None)
    assert check(rung, *pair(odd, cut)).status is Status.PASS


def test_clock_rungs_are_marked(rung_of: Callable[[str], Rung]) -> None:
    assert [rung for rung in map(str, range(1, 26)) if rung_of(f"D{rung}").is_clock_rung] == ["8", "9", "10", "11"]
    assert all(rung_of(f"D{number}").is_timed for number in (4, 5, 7, 8, 9, 10, 11, 12, *range(40, 50)))


SAMPLES = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=40).map(np.array)


@settings(max_examples=50)
@given(SAMPLES, SAMPLES)
def test_without_tolerance_it_is_the_plain_distance(left: Any, right: Any) -> None:
    points = np.concatenate((left, right))
    shares = [np.mean(sample[:, None] <= points, axis=0) for sample in (left, right)]
    assert tolerant_ks(left, right, 0.0) == pytest.approx(np.abs(shares[0] - shares[1]).max())


@settings(max_examples=50)
@given(SAMPLES, SAMPLES, st.floats(-0.0476, 0.05) | st.just(0.05))
def test_tolerance_forgives_shifts_and_only_ever_forgives(left: Any, right: Any, shift: float) -> None:
    assert tolerant_ks(left, left * (1 + shift), 0.05) == 0
    assert tolerant_ks(left, right, 0.05) <= tolerant_ks(left, right, 0.0)
    assert tolerant_ks(left, right, 0.05) == tolerant_ks(right, left, 0.05)
