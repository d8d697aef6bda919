"""Stage 2: who is available, when, and who knows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.config.model import Config
from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Status
from fluxctl.parity.rungs.d15_eligible_speed import weighted_ks
from fluxctl.parity.stats import ks
from fluxctl.telemetry.columns import AbsentField
from fluxctl.types import NS_PER_S, Mode

Event = dict[str, Any]
Edit = Callable[[Event], Event | None]
Check = Callable[..., Finding]
Pair = Callable[..., tuple[Observed, Observed]]
FieldEdit = Callable[..., Callable[[Event], Event]]
MakeConfig = Callable[..., Config]
AWAY_NS = 2 * NS_PER_S  # how long the outages of these tests last
NUM_CLIENTS = 20  # half of them never train, and never change their state
SIMS = (Mode.SIM, Mode.SIM)


def chain(*edits: Edit) -> Edit:
    def edit(event: Event) -> Event | None:
        found: Event | None = event
        for one in edits:
            found = None if found is None else one(found)
        return found

    return edit


def outages(event: Event) -> Event | None:
    """Clients that the synthetic run lets blink are away for a while, and the aggregator is told of both changes."""
    if event["event"] == "avail_change" and event["t_ns"] == 0:
        return None  # the trace begins with everybody there
    is_back = event["event"] == "avail_change" and event["new"] == "AVL_TRAIN"
    if is_back:
        later = event["t_ns"] + AWAY_NS
        return event | {"t_ns": later, "engine_s": later / NS_PER_S}
    if event["event"] == "withheld_delivery":  # stands in for the news of the return
        later = event["t_ns"] + AWAY_NS
        told = {"state": "AVL_TRAIN", "observed_s": later / NS_PER_S, "source": "client_notify"}
        return {"event": "agg_belief_change", "t_ns": later, "client": event["client"], **told}
    return event


def write_trace(path: Path, run: Observed, num_clients: int = NUM_CLIENTS) -> Path:
    """The trace that a run's own changes describe."""
    table = run["avail_change"]
    states = table.labels("new")
    changes = [(client, 0, "AVL_TRAIN") for client in range(num_clients)]
    changes += [
        (client, t_ns, states.names[code])
        for client, t_ns, code in zip(table.ints("client"), table.ints("t_ns"), states.codes, strict=True)
    ]
    changes += [(client, 10**6 * NS_PER_S, "AVL_TRAIN") for client in range(num_clients)]
    lines = [f"{client},{t_ns / NS_PER_S:.9f},{state}" for client, t_ns, state in sorted(changes, key=lambda c: c[:2])]
    path.write_text("\n".join(["client,t_s,state", *lines]) + "\n")
    return path


@pytest.fixture
def traced(tmp_path: Path, pair: Pair, make_config: MakeConfig) -> Callable[..., tuple[Observed, Observed]]:
    """A pair of runs whose changes of availability are those of their trace, but for what the edits change."""
    traces: list[Path] = []

    def build(left: Edit | None = None, right: Edit | None = None, **availability: Any) -> tuple[Observed, Observed]:
        if not traces:
            traces.append(write_trace(tmp_path / "trace.csv", pair(outages)[0]))
        section = {"trace": str(traces[0]), "knowledge": "client_notify"} | availability
        config = make_config(Mode.SIM, clients={"num_clients": NUM_CLIENTS}, availability=section)
        edits = [outages if edit is None else chain(outages, edit) for edit in (left, right)]
        return pair(*edits, configs=(config, config))

    return build


@pytest.mark.feature("D13")
def test_more_clients_that_can_only_evaluate(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D13", *pair())
    assert (finding.status, finding.value, finding.n) == (Status.PASS, 0.0, 60)
    finding = check("D13", *pair(None, field_edit("selection", "avail_composition.AVL_EVAL", 2)))
    assert (finding.status, finding.value) == (Status.FAIL, 0.5)
    assert "AVL_EVAL" in finding.message


def test_a_state_that_is_not_named_has_no_clients(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    everyone = field_edit("selection", "avail_composition", {"AVL_TRAIN": 10})
    assert check("D13", *pair(everyone, everyone)).status is Status.PASS
    assert check("D13", *pair(everyone)).value == 1.0
    with pytest.raises(AbsentField, match=r"selection\.avail_composition"):
        check("D13", *pair(field_edit("selection", "avail_composition", None)))


@pytest.mark.feature("D14")
def test_fewer_to_choose_from(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    assert check("D14", *pair()).status is Status.PASS
    fewer = field_edit("selection", "num_eligible", lambda old, event: old - (event["iteration"] == 0))
    finding = check("D14", *pair(None, fewer))
    assert (finding.status, finding.value) == (Status.FAIL, 0.5)
    assert "num_eligible" in finding.message
    assert check("D14", *pair(field_edit("selection", "num_candidates", 7))).status is Status.FAIL


def test_nearly_equal_constants_are_equal(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    edits = [field_edit("selection", "num_candidates", number) for number in (1000, 1005, 1050)]
    assert check("D14", *pair(edits[0], edits[1])).status is Status.PASS
    assert check("D14", *pair(edits[0], edits[2])).status is Status.FAIL


@pytest.mark.feature("D15")
def test_faster_clients_to_choose_from(check: Check, pair: Pair, make_config: MakeConfig) -> None:
    assert check("D15", *pair()).status is Status.PASS
    fast = make_config(Mode.SIM, delays={"factor": 3.0})
    finding = check("D15", *pair(configs=(None, fast)))
    assert finding.status is Status.FAIL
    assert finding.detail["mean_s"][1] == pytest.approx(finding.detail["mean_s"][0] / 3)


def test_who_is_busy_cannot_be_asked(check: Check, pair: Pair, field_edit: FieldEdit, make_config: MakeConfig) -> None:
    config = make_config(Mode.SIM, delays={"model": "uniform"})
    slow = sorted(range(10), key=lambda client: -client_durations(config)[client])[:5]
    busy = field_edit("agg_round", "contributing_trainers", slow)
    always = [field_edit("agg_round", "contributor_intervals[].commit", 1e9)]
    always.append(field_edit("agg_round", "contributor_intervals[].dispatch", -1.0))
    finding = check("D15", *pair(None, chain(busy, *always), configs=(config, config)))
    assert finding.status is Status.FAIL
    assert finding.detail["mean_s"][1] < finding.detail["mean_s"][0]


def client_durations(config: Config) -> list[int]:
    from fluxctl.data.worlds import client_delays

    delays = client_delays(config)
    return [delays.duration_ns(client) for client in range(config.clients.num_clients)]


def test_nobody_to_choose_from_and_no_configuration(check: Check, traced: Pair, pair: Pair, observe: Any) -> None:
    real, sim = pair()
    bare = observe(real.folder / "events.jsonl", Mode.REAL)
    assert "configuration" in check("D15", bare, sim).message
    broken = traced(trace="no-such-trace")
    finding = check("D15", *broken)
    assert (finding.status, "cannot be built" in finding.message) == (Status.SKIP, True)


@pytest.mark.feature("D16")
def test_clients_that_leave_earlier(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    finding = check("D16", *pair())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)

    def from_bin(number: int) -> Edit:
        return field_edit(
            "selection", "num_eligible", lambda old, event: 4 if 10 * event["round"] + event["bin"] >= number else old
        )

    finding = check("D16", *pair(from_bin(24), from_bin(15)))
    assert (finding.status, finding.value) == (Status.FAIL, 0.6)
    assert "tenth 6 " in finding.message
    assert check("D16", *pair(from_bin(15), from_bin(15))).status is Status.PASS


@pytest.mark.feature("D17")
def test_clients_that_leave_and_do_not_come_back(check: Check, traced: Pair, field_edit: FieldEdit) -> None:
    finding = check("D17", *traced())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    finding = check("D17", *traced(None, field_edit("avail_change", "new", "UN_AVL")))
    assert finding.status is Status.FAIL
    assert finding.value == pytest.approx(0.75, abs=0.02)  # of 60 changes half came back, half of the rest to evaluate


def gone_for_good(event: Event) -> Event:
    is_back = event["event"] == "avail_change" and event["new"] == "AVL_TRAIN"
    return event | {"new": "UN_AVL"} if is_back else event


@pytest.mark.feature("D18")
def test_time_away(check: Check, traced: Pair) -> None:
    finding = check("D18", *traced())
    assert (finding.status, finding.value, finding.n) == (Status.PASS, 0.0, NUM_CLIENTS)
    finding = check("D18", *traced(None, gone_for_good))
    assert finding.status is Status.FAIL
    assert finding.detail["worst"] > 0.3


@pytest.mark.feature("D19")
def test_states_at_the_same_moment(check: Check, traced: Pair) -> None:
    finding = check("D19", *traced())
    assert (finding.status, finding.value, finding.n) == (Status.PASS, 1.0, 400)
    finding = check("D19", *traced(None, gone_for_good))
    assert finding.status is Status.FAIL
    assert 0.7 < finding.value < 0.95


@pytest.mark.feature("D20")
def test_a_trace_that_was_not_replayed(check: Check, traced: Pair) -> None:
    finding = check("D20", *traced())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    assert finding.detail["real"]["num_true"] > 40
    for edits in ((gone_for_good, None), (None, gone_for_good)):
        assert check("D20", *traced(*edits)).status is Status.FAIL


def test_a_change_that_was_missed_or_made_up_warns(check: Check, traced: Pair) -> None:
    def missed(event: Event) -> Event | None:
        is_last = event["event"] == "avail_change" and event["t_ns"] > 33 * NS_PER_S
        return None if is_last else event

    finding = check("D20", *traced(None, missed))
    assert finding.status is Status.WARN
    assert finding.detail["sim"]["num_missed"] > 0 == finding.detail["sim"]["num_spurious"]

    def made_up(event: Event) -> Event:
        is_first = event["event"] == "abandon" and event["t_ns"] < NS_PER_S * 3 / 2
        change = {"old": "AVL_TRAIN", "new": "AVL_EVAL", "engine_s": 20.0}
        return {"event": "avail_change", "t_ns": 20 * NS_PER_S, "client": 15, **change} if is_first else event

    finding = check("D20", *traced(None, made_up))
    assert finding.status is Status.WARN
    assert (finding.detail["sim"]["num_missed"], finding.detail["sim"]["num_spurious"]) == (0, 1)


@pytest.mark.feature("D21")
def test_an_aggregator_that_hears_nothing(check: Check, traced: Pair, field_edit: FieldEdit) -> None:
    finding = check("D21", *traced())
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    finding = check("D21", *traced(None, field_edit("agg_belief_change", "state", "AVL_TRAIN")))
    assert finding.status is Status.FAIL
    assert "sim at" in finding.message


def test_news_that_are_late_by_policy_are_right(check: Check, traced: Pair) -> None:
    def later(event: Event) -> Event:
        return event | {"t_ns": event["t_ns"] + NS_PER_S} if event["event"] == "agg_belief_change" else event

    finding = check("D21", *traced(later, later, notify_latency_s=1.0))
    assert (finding.status, finding.value) == (Status.PASS, 0.0)
    assert finding.detail["sim at commit"]["untrue_frac"] > 0
    assert check("D21", *traced(later, later)).value > 0.01


def test_beliefs_of_an_aggregator_without_any(check: Check, traced: Pair) -> None:
    assert "everybody" in check("D21", *traced(knowledge="unaware")).message


@pytest.fixture
def gated(tmp_path: Path, pair: Pair, make_config: MakeConfig) -> Callable[..., tuple[Observed, Observed]]:
    """Clients are away for 0.1 s before each send, or for longer around it."""
    real, _ = pair()
    clients, sends = real["task_send"].ints("client").tolist(), real["task_send"].ints("send_ns").tolist()
    order = sorted(zip(clients, sends, strict=True))

    def build(left: Edit | None, right: Edit | None, *, until_s: float = 0.0) -> tuple[Observed, Observed]:
        lines = ["client,t_s,state", *(f"{client},0,AVL_TRAIN" for client in range(10))]
        for client, send in order:
            back = send / NS_PER_S + until_s
            lines += [f"{client},{(send - NS_PER_S // 10) / NS_PER_S:.9f},UN_AVL", f"{client},{back:.9f},AVL_TRAIN"]
        lines += [f"{client},1000000,AVL_TRAIN" for client in range(10)]
        header, *rest = lines
        rest.sort(key=lambda line: (int(line.split(",")[0]), float(line.split(",")[1])))
        path = tmp_path / f"gates{until_s}.csv"
        path.write_text("\n".join([header, *rest]) + "\n")
        config = make_config(Mode.SIM, availability={"trace": str(path)})
        return pair(left, right, configs=(config, config))

    return build


@pytest.mark.feature("D22")
def test_updates_that_wait_for_too_long(check: Check, gated: Pair, field_edit: FieldEdit) -> None:
    waits = field_edit("task_send", "send_gate_wait_s", 0.1)
    finding = check("D22", *gated(waits, waits))
    assert (finding.status, finding.value, finding.n) == (Status.PASS, pytest.approx(0, abs=1e-6), 300)
    finding = check("D22", *gated(waits, field_edit("task_send", "send_gate_wait_s", 60.0)))
    assert (finding.status, finding.value > 10) == (Status.FAIL, True)


def test_updates_that_do_not_wait_at_all(check: Check, gated: Pair) -> None:
    finding = check("D22", *gated(None, None, until_s=200.0))
    assert (finding.status, finding.value > 100) == (Status.FAIL, True)
    assert check("D22", *gated(None, None)).status is Status.SKIP  # sent at the instant of the return: no wait


@pytest.mark.parametrize("rung", ["D20", "D21", "D22"])
def test_without_a_trace_there_is_no_truth(check: Check, pair: Pair, rung: str) -> None:
    finding = check(rung, *pair())
    assert (finding.status, "always available" in finding.message) == (Status.SKIP, True)


@pytest.mark.parametrize("rung", ["D17", "D18", "D19", "D20"])
def test_changes_that_nobody_told_are_absent(check: Check, traced: Pair, rung: str) -> None:
    with pytest.raises(AbsentField, match=r"avail_change\.new"):
        check(rung, *traced(lambda event: None if event["event"] == "avail_change" else event))


@pytest.mark.feature("D23")
@pytest.mark.parametrize(("age_s", "reason"), [(30.0, "silent"), (1.7e9, "silent"), (1.7e9, "boundary")])
def test_clients_given_up_by_another_clock(
    check: Check, pair: Pair, field_edit: FieldEdit, age_s: float, reason: str
) -> None:
    why = field_edit("abandon", "reason", reason)
    assert check("D23", *pair(why, why)).status is Status.PASS
    finding = check("D23", *pair(why, chain(why, field_edit("abandon", "age_s", age_s))))
    assert (finding.status, finding.value) == (Status.FAIL, 30.0)


def test_the_timeout_is_the_configured_one(check: Check, pair: Pair, make_config: MakeConfig) -> None:
    patient = make_config(Mode.SIM, engine={"abandon_after_s": 120.0})
    assert check("D23", *pair(configs=(None, patient))).status is Status.FAIL


def test_evictions_and_runs_without_any(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    evicted = chain(field_edit("abandon", "reason", "boundary"), field_edit("abandon", "age_s", 2.0))
    finding = check("D23", *pair(evicted, evicted))
    assert (finding.status, finding.detail["num_boundary"], finding.detail["num_silent"]) == (Status.PASS, 60, 0)

    def nobody(event: Event) -> Event | None:
        return None if event["event"] == "abandon" else event

    assert check("D23", *pair(nobody, nobody)).status is Status.SKIP


@pytest.mark.feature("D24")
def test_a_jump_over_a_starving_span(check: Check, pair: Pair, field_edit: FieldEdit, make_config: MakeConfig) -> None:
    config = make_config(Mode.SIM, availability={"trace": "syn_20"})
    assert check("D24", *pair(configs=(config, config))).status is Status.PASS
    late = field_edit("agg_round", "t_ns", lambda old, cycle: old + (20 * NS_PER_S if cycle["cycle"] >= 31 else 0))
    finding = check("D24", *pair(None, late, configs=(config, config)))
    assert (finding.status, finding.value, finding.detail["jumps"]) == (Status.WARN, 1.0, [0, 1])
    assert check("D24", *pair()).status is Status.SKIP  # always available
    assert check("D24", *pair(configs=(config, config), num_bins=1)).status is Status.SKIP


@pytest.mark.feature("D25")
def test_a_pool_that_shrinks_more(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    some = field_edit("selection", "num_eligible", 8)
    more = field_edit("selection", "num_eligible", 6)
    assert check("D25", *pair()).status is Status.PASS
    assert check("D25", *pair(some, some)).value == 0.0
    finding = check("D25", *pair(some, more))
    assert (finding.status, finding.value) == (Status.WARN, 0.5)
    assert check("D25", *pair(), Options(max_bin=0)).status is Status.SKIP


@pytest.mark.parametrize("rung", ["D13", "D14", "D15", "D16"])
def test_few_samples_are_inconclusive(check: Check, pair: Pair, field_edit: FieldEdit, rung: str) -> None:
    other = field_edit("selection", "num_eligible", 3)
    finding = check(rung, *pair(None, other), Options(max_bin=5))
    assert (finding.status, finding.n) == (Status.INCONCLUSIVE, 10)


def test_few_clients_are_inconclusive(check: Check, pair: Pair) -> None:
    findings = [check(rung, *pair(outages, chain(outages, gone_for_good))) for rung in ("D17", "D18")]
    assert [finding.status for finding in findings] == [Status.FAIL, Status.INCONCLUSIVE]


def test_the_last_unfinished_bin_does_not_count(check: Check, pair: Pair, field_edit: FieldEdit) -> None:
    cut = field_edit("agg_round", "commit_reason", lambda old, cycle: old if cycle["cycle"] < 59 else None)
    odd = field_edit(
        "selection", "num_eligible", lambda old, event: 1 if event["bin"] == 9 == 7 + event["round"] else old
    )
    real, sim = pair(odd, cut)
    assert check("D16", real, sim).value == 0.0
    assert check("D16", real, pair()[1]).value == pytest.approx(0.3)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=40), st.lists(st.integers(0, 20), min_size=2, max_size=40))
def test_unit_weights_give_the_plain_distance(left: list[int], right: list[int]) -> None:
    one, other = np.array(left, np.float64), np.array(right, np.float64)
    plain = ks(one, other).d
    assert weighted_ks(one, np.ones(len(one)), other, np.ones(len(other))) == pytest.approx(plain)
    twice = np.concatenate((one, one))
    assert weighted_ks(twice, np.ones(len(twice)), other, 3 * np.ones(len(other))) == pytest.approx(plain)
