"""Clients that measure the model and do not train: their slots, their messages, and what is learned from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.config.model import Config
from fluxctl.engine.payload import Payload, encode, reply_bytes
from fluxctl.types import NS_PER_S, PayloadKind, Verdict
from fluxctl.world.availability import AVAILABLE, SlotTrace

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
HAND: dict[str, Any] = {
    "aggregation__style": "async",
    "aggregation__staleness__name": "downweight",
    "selection__policy__name": "async_oort",
    "selection__policy__params": {"eval_goal_factor": 1.0, "eval_rest_rounds": 2},
    "clients__num_clients": 12,
    "aggregation__goal": 2,
    "aggregation__concurrency": 4,
    "limits__max_bins": 20,
}
REAL: dict[str, Any] = {"mode": "real", "engine__wall_factor": 150.0, "engine__reorder_slack_s": 1e4}


def evaluations(run: Any, event: str) -> list[dict[str, Any]]:
    return [e for e in run.of(event) if e.get("work") == "eval" or e.get("task") == "eval"]


@pytest.mark.feature("B17", "A11")
def test_it_holds_slots_of_its_own(run_engine: RunEngine, config_of: ConfigOf) -> None:
    run = run_engine(config_of(**HAND))
    assert run.stop.verdict is Verdict.COMPLETED
    asked = evaluations(run, "selection")
    assert asked
    assert all(e["num_chosen"] <= e["requested"] and e["in_flight"] + e["requested"] == 2 for e in asked)
    assert run.ledger.most_in_flight == 4  # C, with evaluations besides
    assert len(evaluations(run, "dispatch")) == sum(e["num_chosen"] for e in asked)
    # Whoever evaluates is free before it trains, and the other way round: the ledger has checked each dispatch.
    assert {how for *_, how in run.ledger.intervals} == {"commit", "finish"}


@pytest.mark.feature("B17", "B22")
def test_measurements_bring_utility_and_no_update(run_engine: RunEngine, config_of: ConfigOf) -> None:
    run = run_engine(config_of(**HAND), workload="learner")
    found = run.of("trainer_eval")
    assert found
    assert all(e["forward_passes"] == 1 and e["stat_utility"] == 3.0 and e["num_samples"] == 2 for e in found)
    sizes = {e["bytes"] for e in run.of("comm") if e["payload"] == "measurement"}
    assert sizes == {len(encode(Payload(PayloadKind.MEASUREMENT, 0, 0, 0)))} == {reply_bytes()}
    totals = run.engine.recorder.totals
    assert totals.evaluations == len(found)
    assert totals.updates == len(run.of("trainer_round"))
    assert totals.forward_passes == len(found) + 2 * totals.updates
    sent = [e for e in run.of("task_send") if e["task"] in {d["task"] for d in evaluations(run, "dispatch")}]
    assert len(sent) == len(found)
    commits = [client for _, clients, _ in run.commits for client in clients]
    assert len(commits) == 2 * len(run.commits)


@pytest.mark.feature("B17")
def test_who_was_measured_rests(run_engine: RunEngine, config_of: ConfigOf) -> None:
    """Nobody is asked to evaluate who was heard from in the last two selections, or never."""
    run = run_engine(config_of(**HAND))
    number, heard = 0, {}
    for event in run.events:
        match event["event"]:
            case "selection" if event["task"] == "train":
                number += 1
            case "selection":
                assert all(number - heard[client] > 2 for client in event["chosen"])
            case "trainer_eval":
                heard[event["client"]] = number
            case "agg_round":
                heard |= dict.fromkeys(event["contributing_trainers"], number)


@pytest.mark.feature("B17", "A1")
@pytest.mark.wall
def test_both_clocks_agree(run_engine: RunEngine, config_of: ConfigOf) -> None:
    world = {**HAND, "availability__trace": "syn_20", "availability__knowledge": "client_notify"}
    trace = SlotTrace(3, 12 * NS_PER_S, 0.7)
    real, sim = (run_engine(config_of(**world, **mode), trace=trace) for mode in (REAL, {}))
    assert [real.error, sim.error] == [None, None]
    assert evaluations(sim, "dispatch")
    assert real.hash == sim.hash


@pytest.mark.feature("B17", "A26")
def test_a_client_that_cannot_train_can_evaluate(
    run_engine: RunEngine, config_of: ConfigOf, trace_of: Callable[..., Any]
) -> None:
    """Back-propagation needs AVL_TRAIN. From 30 s on client 0 is in AVL_EVAL: it is measured, and not trained."""
    changes: dict[int, Any] = {0: [(0, "T"), (30, "E")], 1: [(0, "T"), (30, "-")]}
    config = config_of(
        **{**HAND, "limits__max_bins": 60},
        step__estimator="backprop",
        availability__trace="syn_20",
        availability__knowledge="oracular",
    )
    trace = trace_of(changes, 12)
    run = run_engine(config, trace=trace)
    late = [e for e in run.of("dispatch") if e["dispatch_ns"] >= 30 * NS_PER_S]
    assert {e.get("work") for e in late if e["client"] == 0} == {"eval"}
    assert not [e for e in late if e["client"] == 1]
    for event in run.of("task_send"):
        assert trace.state(event["client"], event["send_ns"]) in AVAILABLE


@pytest.mark.feature("B17", "A14")
def test_a_silent_one_is_given_up_and_its_late_word_counts(
    run_engine: RunEngine, config_of: ConfigOf, trace_of: Callable[..., Any]
) -> None:
    """Everybody is away from 40 to 300 s, and nobody knows; who was to evaluate holds no slot from 90 s after."""
    changes = {client: [(0, "T"), (40, "-"), (300, "T")] for client in range(12)}
    config = config_of(**{**HAND, "limits__max_bins": 30}, availability__trace="syn_20")
    run = run_engine(config, trace=trace_of(changes, 12))
    assert run.stop.verdict is Verdict.COMPLETED
    given_up = evaluations(run, "abandon")
    assert given_up
    assert all(e["age_s"] == 90.0 for e in given_up)
    clients = {e["client"] for e in given_up}
    assert clients <= {e["client"] for e in run.of("trainer_eval") if e["t_ns"] >= 300 * NS_PER_S}


@pytest.mark.feature("B17", "A31")
@pytest.mark.parametrize("policy", ["drop", "retry"])
def test_a_failing_evaluation_does_not_end_the_run(
    run_engine: RunEngine, config_of: ConfigOf, null_workload: Any, policy: str
) -> None:
    failed: list[int] = []

    def fail_once(task: Any) -> None:
        if task.work == "eval" and not failed:
            failed.append(task.client)
            raise OSError("disk")

    run = run_engine(config_of(**HAND, engine__on_trainer_error=policy), workload=null_workload(before=fail_once))
    assert run.stop.verdict is Verdict.COMPLETED
    [note] = [note for note in run.notes if note["event"] == "trainer_failed"]
    later = [e["client"] for e in run.of("dispatch") if e["t_ns"] > note.get("t_ns", 0)]
    assert note["client"] == failed[0]
    assert later


@pytest.mark.feature("B17")
def test_without_a_hand_nothing_is_different(run_engine: RunEngine, config_of: ConfigOf) -> None:
    off = {**HAND, "selection__policy__params": {"eval_goal_factor": 0.0}}
    default = {**HAND, "selection__policy__params": {}}
    runs = [run_engine(config_of(**config)) for config in (off, default)]
    assert runs[0].hash == runs[1].hash
    assert not evaluations(runs[0], "selection")
