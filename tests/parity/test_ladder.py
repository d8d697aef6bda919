"""The ladder with rungs made up for the purpose: tiers, options, gates, causes, verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.parity.ladder import PairVerdict, climb
from fluxctl.parity.registry import STAGES, all_rungs
from fluxctl.parity.result import Cause, Finding, Options, Role, Rung, Status, Tier
from fluxctl.types import Mode


def fake(name, status=Status.PASS, *, value=None, needs=(), tier=Tier.EXACT, stage="0", check=None, **flags):
    finding = Finding(status, value, "<= 1", 1, f"{name} was looked at", limit=flags.get("limit"))
    return Rung(
        id=name, short=name, name=name, stage=stage, tier=tier, role=Role.MECHANISM, question="?", broken="Broken.",
        needs=tuple(needs), is_gated=flags.get("is_gated", False), is_timed=flags.get("is_timed", False),
        is_clock_rung=flags.get("is_clock_rung", False), check=check or (lambda left, right, options: finding),
    )  # fmt: skip


def statuses(pair, rungs, options=None):
    found = climb(*pair, options or Options(), rungs)
    return {result.rung.id: result.finding.status for result in found.results}, found


@pytest.mark.feature("D0b")
@pytest.mark.parametrize("status", [Status.FAIL, Status.WARN])
@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_how_hard_a_failure_counts_follows_from_the_tier(twins, tier, status, lenient, strict) -> None:
    found, ladder = statuses(twins, [fake("X", status, tier=tier)], Options(lenient=lenient, strict=strict))
    if tier is Tier.DIAG:
        expected = Status.FAIL if strict else Status.WARN
    elif tier is Tier.DIST and lenient:
        expected = Status.WARN
    else:
        expected = status
    assert found == {"X": expected}
    assert (ladder.verdict is PairVerdict.FAIL) == (expected is Status.FAIL)


def test_an_absent_field_skips_a_rung_and_is_named(twins) -> None:
    def check(left, right, options):
        return left.cycles.numbers("no_such_field")

    found, ladder = statuses(twins, [fake("X", check=check), fake("Y")])
    assert found == {"X": Status.SKIP, "Y": Status.PASS}
    assert "agg_round.no_such_field" in ladder.results[0].finding.message


def test_a_bug_in_a_rung_is_not_swallowed_and_says_where(twins) -> None:
    def check(left, right, options):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        climb(*twins, Options(), [fake("X", check=check)])
    assert caught.value.__notes__ == ["in rung X (X)"]


@pytest.mark.feature("F13")
def test_strip_time_leaves_timed_rungs_out(twins) -> None:
    rungs = [fake("X", Status.FAIL, is_timed=True), fake("Y")]
    assert statuses(twins, rungs)[0]["X"] is Status.FAIL
    found, ladder = statuses(twins, rungs, Options(strip_time=True))
    assert (found["X"], ladder.verdict) == (Status.SKIP, PairVerdict.PASS)


@pytest.mark.feature("D0g")
class TestClockRungs:
    """A clock rung of limit 0.3 that measured -0.5."""

    RUNGS = (fake("X", Status.FAIL, value=-0.5, limit=0.3, is_clock_rung=True), fake("Y"))

    @pytest.mark.parametrize(
        ("noise", "expected"), [(0.2, Status.FAIL), (0.249, Status.FAIL), (0.25, Status.INCONCLUSIVE)]
    )
    def test_they_fail_only_beyond_twice_the_noise_floor(self, twins, noise, expected) -> None:
        found, ladder = statuses(twins, self.RUNGS, Options(noise={"X": noise}))
        assert found["X"] is expected
        if expected is Status.INCONCLUSIVE:
            assert ladder.verdict is PairVerdict.INCONCLUSIVE
            assert "within twice the noise floor of 0.25" in ladder.results[0].finding.message

    @pytest.mark.parametrize("noise", [{}, {"Y": 9.0}])
    def test_without_a_floor_the_limit_stands_in_for_it_and_the_remedy_is_named(self, twins, noise) -> None:
        found, ladder = statuses(twins, self.RUNGS, Options(noise=noise))
        assert found["X"] is Status.INCONCLUSIVE
        assert "fluxctl parity --noise REAL REAL" in ladder.results[0].finding.message
        beyond = [fake("X", Status.FAIL, value=0.61, limit=0.3, is_clock_rung=True)]
        assert statuses(twins, beyond, Options(noise=noise))[0]["X"] is Status.FAIL

    def test_what_has_no_number_is_no_noise(self, twins) -> None:
        blind = [fake("X", Status.FAIL, limit=0.3, is_clock_rung=True), fake("Y", Status.FAIL, value=0.1)]
        assert set(statuses(twins, blind)[0].values()) == {Status.FAIL}

    def test_two_simulations_have_no_noise(self, pair) -> None:
        sims = pair(modes=(Mode.SIM, Mode.SIM))
        assert statuses(sims, self.RUNGS, Options(noise={"X": 9.0}))[0]["X"] is Status.FAIL

    def test_lenient_takes_noise_for_granted_and_nothing_more(self, twins) -> None:
        found, ladder = statuses(twins, self.RUNGS, Options(lenient=True))
        assert (found["X"], ladder.verdict) == (Status.WARN, PairVerdict.PASS)
        assert statuses(twins, self.RUNGS, Options(lenient=True, noise={"X": 0.1}))[0]["X"] is Status.FAIL


def test_noise_excuses_no_other_rung(twins) -> None:
    found, _ = statuses(twins, [fake("X", Status.FAIL, value=0.1)], Options(noise={"X": 9.0}))
    assert found == {"X": Status.FAIL}


@pytest.mark.feature("D0f")
class TestGates:
    GATED = (fake("X", Status.FAIL, is_gated=True), fake("Y"))

    def test_they_are_enforced_where_every_selection_saw_the_same_clients(self, twins) -> None:
        found, ladder = statuses(twins, self.GATED)
        assert ladder.determinism.is_enforced
        assert found["X"] is Status.FAIL

    def test_they_are_not_where_the_eligible_clients_differ(self, pair) -> None:
        num = 0

        def other(event):
            nonlocal num
            num += event["event"] == "selection"
            return event | {"eligible_fingerprint": "e1"} if event["event"] == "selection" and num == 7 else event

        found, ladder = statuses(pair(right=other), self.GATED)
        assert found["X"] is Status.WARN
        assert "selection 7 of 60" in ladder.determinism.reason
        assert "not enforced" in ladder.results[0].finding.message
        assert statuses(pair(right=lambda event: event), self.GATED, Options(max_bin=3))[0]["X"] is Status.FAIL

    def test_a_difference_beyond_max_bin_does_not_matter(self, pair) -> None:
        def other(event):
            late = event["event"] == "selection" and event["t_ns"] > 20_000_000_000
            return event | {"eligible_fingerprint": "e1"} if late else event

        runs = pair(right=other)
        assert not climb(*runs, Options(), self.GATED).determinism.is_enforced
        assert climb(*runs, Options(max_bin=3), self.GATED).determinism.is_enforced

    def test_they_are_enforced_where_nobody_had_a_choice(self, pair) -> None:
        def everyone(event):
            return event | {"num_candidates": 5} if event["event"] == "selection" else event

        def everyone_in_other_words(event):
            return (
                event | {"num_candidates": 5, "eligible_fingerprint": "e9"} if event["event"] == "selection" else event
            )

        ladder = climb(*pair(left=everyone, right=everyone_in_other_words), Options(), self.GATED)
        assert ladder.determinism.is_enforced
        assert "every candidate" in ladder.determinism.reason

    @pytest.mark.parametrize(
        ("engine", "word"),
        [
            ({"commit_order": "arrival"}, "arrival"),
            ({"charge_compute": "measured"}, "measured"),
            ({"charge_evaluation": "measured"}, "evaluations"),
        ],
    )
    def test_they_are_not_where_the_wall_decides(self, pair, make_config, engine, word) -> None:
        configs = tuple(make_config(mode, engine=engine) for mode in (Mode.REAL, Mode.SIM))
        found, ladder = statuses(pair(configs=configs), self.GATED)
        assert found["X"] is Status.WARN
        assert word in ladder.determinism.reason

    @pytest.mark.parametrize("field", ["eligible_fingerprint", "num_chosen"])
    def test_they_are_not_where_nobody_knows(self, pair, field) -> None:
        def lacking(event):
            return {name: value for name, value in event.items() if name != field}

        found, ladder = statuses(pair(left=lacking, right=lacking), self.GATED)
        assert found["X"] is Status.WARN
        assert f"selection.{field}" in ladder.determinism.reason


@pytest.mark.feature("D0c")
class TestCauses:
    def test_a_failure_below_a_failure_is_downstream_however_far(self, twins) -> None:
        rungs = [
            fake("A", Status.FAIL), fake("B", needs=["A"]), fake("C", Status.FAIL, needs=["B"], stage="5"),
            fake("D", Status.FAIL, stage="6"), fake("E", Status.FAIL, needs=["C", "D"], stage="8"),
            fake("F", needs=["A"]),
        ]  # fmt: skip
        ladder = climb(*twins, Options(), rungs)
        causes = {result.rung.id: result.cause for result in ladder.results}
        assert causes == {
            "A": Cause.ROOT, "B": None, "C": Cause.DOWNSTREAM, "D": Cause.ROOT, "E": Cause.DOWNSTREAM, "F": None,
        }  # fmt: skip
        assert [root.rung.id for root in ladder.roots] == ["A", "D"]
        assert [result.rung.id for result in ladder.downstream_of(ladder.roots[0])] == ["C", "E"]
        assert [result.rung.id for result in ladder.downstream_of(ladder.roots[1])] == ["E"]

    def test_what_only_warns_is_no_cause(self, twins) -> None:
        rungs = [fake("A", Status.FAIL, tier=Tier.DIAG), fake("B", Status.FAIL, needs=["A"])]
        assert [result.cause for result in climb(*twins, Options(), rungs).results] == [None, Cause.ROOT]

    @given(st.data())
    def test_every_failure_has_a_root_and_roots_have_no_failed_ancestor(self, twins, data) -> None:
        names = [f"N{number}" for number in range(8)]
        needs = {
            name: data.draw(st.sets(st.sampled_from(names[:i] or ["N0"]))) - {name} for i, name in enumerate(names)
        }
        fails = data.draw(st.sets(st.sampled_from(names)))
        rungs = [fake(name, Status.FAIL if name in fails else Status.PASS, needs=needs[name]) for name in names]

        def ancestors(name):
            return set().union(*({other} | ancestors(other) for other in needs[name]))

        ladder = climb(*twins, Options(), rungs)
        for result in ladder.results:
            has_failed_ancestor = bool(ancestors(result.rung.id) & fails)
            expected = None if result.rung.id not in fails else Cause.DOWNSTREAM if has_failed_ancestor else Cause.ROOT
            assert result.cause is expected
        assert bool(fails) == bool(ladder.roots)
        explained = {of.rung.id for root in ladder.roots for of in (root, *ladder.downstream_of(root))}
        assert explained == fails


@pytest.mark.parametrize(
    ("rungs", "expected"),
    [
        ([fake("A"), fake("B", Status.WARN), fake("C", Status.SKIP)], PairVerdict.PASS),
        ([fake("A", Status.LOW_CONF)], PairVerdict.PASS),
        ([fake("A"), fake("B", Status.INCONCLUSIVE, tier=Tier.DIST)], PairVerdict.PASS),
        ([fake("A"), fake("B", Status.INCONCLUSIVE, tier=Tier.INV)], PairVerdict.INCONCLUSIVE),
        ([fake("A", Status.SKIP)], PairVerdict.INCONCLUSIVE),
        ([], PairVerdict.INCONCLUSIVE),
        ([fake("A", Status.INCONCLUSIVE), fake("B", Status.FAIL)], PairVerdict.FAIL),
    ],
)
def test_the_verdict_of_a_pair(twins, rungs, expected) -> None:
    ladder = climb(*twins, Options(), rungs)
    assert ladder.verdict is expected
    assert sum(ladder.counts.values()) == len(rungs)


def test_beside_the_verdict_stands_what_the_wall_did(pair) -> None:
    def late(event):
        if event["event"] == "agg_round" and event["cycle"] in (3, 4):
            event["wall"]["inversions"] = 2
        if event["event"] == "task_send" and event["t_ns"] > 0 and event["client"] == 3:
            event["wall"]["send_s"] = event["send_ns"] / 1e9 + 0.25
        return event

    (arrivals,) = climb(*pair(left=late), Options(), [fake("A")]).arrivals
    assert (arrivals.label, arrivals.num_inversions, arrivals.num_pairs) == ("real", 4, 60 * 10)
    assert arrivals.worst_lateness_s == pytest.approx(0.25)
    assert arrivals.flip_frac == pytest.approx(4 / 600)
    assert "250.0 ms" in arrivals.sentence()
    assert climb(*pair(modes=(Mode.SIM, Mode.SIM)), Options(), [fake("A")]).arrivals == ()


@pytest.mark.feature("D0e")
def test_max_bin_and_a_truncated_last_bin_limit_what_is_compared(pair) -> None:
    runs = pair(right=lambda event: event if event["t_ns"] < 20_000_000_000 else None)
    whole = climb(*runs, Options(), [fake("A")]).num_units
    assert 0 < whole < 30
    assert climb(*runs, Options(max_bin=4), [fake("A")]).num_units == 4
    assert climb(*runs, Options(max_bin=99), [fake("A")]).num_units == whole


class TestRegistry:
    @pytest.mark.feature("D0a")
    def test_every_row_of_the_specification_has_one_rung_and_every_role_is_used(self) -> None:
        ids = {rung.id for rung in all_rungs()}
        assert {f"D{number}" for number in range(1, 76)} - ids <= {"D61"}
        assert {"cohort_sequence", "model_checksum"} <= {rung.name for rung in all_rungs()}
        assert {rung.role for rung in all_rungs()} == set(Role)
        assert {rung.tier for rung in all_rungs()} == set(Tier)

    def test_rungs_are_sorted_by_stage_and_need_only_each_other_without_a_circle(self) -> None:
        rungs = all_rungs()
        stages = [STAGES.index(rung.stage) for rung in rungs]
        assert stages == sorted(stages)
        needs = {rung.id: set(rung.needs) for rung in rungs}
        assert not set().union(*needs.values()) - set(needs)
        while free := {name for name, of in needs.items() if not of}:
            needs = {name: of - free for name, of in needs.items() if name not in free}
        assert not needs

    def test_every_rung_says_in_words_what_it_asks_and_what_a_failure_means(self) -> None:
        for rung in all_rungs():
            assert rung.question.endswith("?"), rung.id
            assert rung.broken.endswith("."), rung.id
            assert len(rung.short) <= 24, rung.id

    def test_a_name_is_taken_once(self) -> None:
        from fluxctl.parity.registry import rung

        first = all_rungs()[0]
        for taken in ({"id": first.id, "name": "new"}, {"id": "D999", "name": first.name}):
            with pytest.raises(ValueError, match="twice"):
                rung(**taken, short="x", stage="0", tier=Tier.INV, role=Role.CONTROL, question="?", broken=".")(fake)
        with pytest.raises(ValueError, match="stage"):
            rung("D999", "x", "x", stage="12", tier=Tier.INV, role=Role.CONTROL, question="?", broken=".")


def test_the_whole_ladder_passes_on_a_pair_that_agrees_and_its_runs_may_be_swapped(twins) -> None:
    for runs in (twins, twins[::-1]):
        ladder = climb(*runs, Options())
        failed = [(result.rung.name, result.finding.message) for result in ladder.results if result.cause]
        assert not failed
        assert ladder.verdict is PairVerdict.PASS
