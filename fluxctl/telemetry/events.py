"""The vocabulary of the event stream: every event, its place within an instant, and the fields that it must carry.

One table, so that the writer, the tests, the parity rungs and the documentation speak of the same fields. The lists
are minima: an event may carry more. Names of values measured on the wall are listed apart, because they live in the
event's ``wall`` sub-object and are no part of a run's canonical hash. This module must not write or read files.

Events of one instant of engine time are ordered as things follow from each other within a client step and a commit:
clients finish and send, the aggregator receives and commits, evaluates, selects, dispatches, and clients receive.
``run_meta`` opens the stream and ``verdict`` closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 1
HEADER: Final = "header"
RESERVED: Final = frozenset({"event", "t_ns", "wall", "nonfinite"})  # set by the writer, never by a caller


@dataclass(frozen=True, slots=True)
class EventSpec:
    """What one kind of event promises.

    Attributes:
        order: Place among events of the same instant; smaller is earlier.
        feature: Row of ``docs/features.md`` that asks for it.
        fields: Least fields of the event itself; a function of the run, equal on every machine.
        wall: Least fields of its ``wall`` sub-object.
    """

    order: int
    feature: str
    fields: tuple[str, ...]
    wall: tuple[str, ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CADENCE = "round bin iteration"

EVENTS: Final[Mapping[str, EventSpec]] = {
    "run_meta": EventSpec(0, "C1", _words("config_hash seed"), _words("identity versions host device")),
    "trainer_round": EventSpec(
        10,
        "C5",
        _words(
            f"client {_CADENCE} version modelled_d_s wait_s avail_state num_samples stat_utility loss update_norm"
            " training_budget_s forward_passes num_directions forward_passes_total num_directions_total"
        ),
        _words("compute_s pre_train_s to_device_s train_s from_device_s fetch_s post_train_s overran"),
    ),
    "trainer_eval": EventSpec(
        9,
        "B17",
        _words(
            f"client {_CADENCE} version modelled_d_s wait_s num_samples stat_utility loss"
            " forward_passes forward_passes_total"
        ),
        _words("compute_s overran"),
    ),
    "task_send": EventSpec(
        11, "C7", _words("client task recv_ns send_ns send_gate_wait_s due_ns"), _words("recv_s send_s")
    ),
    # Uploads sort here; downloads follow their dispatch, see `order_of`.
    "comm": EventSpec(12, "C16", _words(f"direction bytes peer {_CADENCE} payload tensors")),
    "agg_round": EventSpec(
        20,
        "C4",
        _words(
            "round goal goal_count in_flight updates_in_queue staleness stat_utility trainer_speed_s"
            " contributing_trainers contributor_intervals visibility_lag_s barrier_wait_s"
            " cycle_bin cycle_iteration grad_pool_size cached_pool_size bin iteration version engine_s"
            " var var_threshold var_good commit_reason stopping_policy agg_rate_type gated_total"
            " redundant_suppressed_total dynamic_c num_eligible grad_norm stop_reason"
        ),
        _words("wall_s sim_rate drain_tail_s aggregate_s eval_s wait_s intrinsic_span_s"),
    ),
    "agg_eval": EventSpec(
        21, "C3", _words(f"{_CADENCE} version test_accuracy test_loss mcc predicted_counts label_counts")
    ),
    "selection": EventSpec(
        30,
        "C2",
        _words(
            f"{_CADENCE} task selector num_candidates num_eligible avail_composition chosen num_chosen in_flight seed"
            " eligible_fingerprint decision_fingerprint effective_c preferred_duration_s in_pending_commit"
        ),
    ),
    "residence": EventSpec(
        31,
        "C9",
        _words("in_flight_before in_flight_after num_selected num_committed num_cleaned num_stale_rejected ages_s"),
    ),
    "dispatch": EventSpec(40, "C11", _words("client task dispatch_ns stagger_s")),
    "task_recv": EventSpec(42, "C6", _words("client round dispatch_ns avail_state"), _words("mode")),
    "avail_change": EventSpec(1, "C8", _words("client old new engine_s")),
    "agg_belief_change": EventSpec(2, "C14", _words("client state observed_s source")),
    "withheld_delivery": EventSpec(13, "C12", _words("client due_ns delivery_ns delay_s staleness accepted commit_ns")),
    "abandon": EventSpec(14, "C13", _words("client dispatch_ns now_ns age_s reason")),
    "utility_belief": EventSpec(22, "C10", _words("client believed actual staleness")),
    "control": EventSpec(23, "B4", _words("controller goal_before goal concurrency_before concurrency inputs")),
    "rollback": EventSpec(24, "B16", _words("version test_accuracy test_loss reason num_rollbacks lr model_checksum")),
    "verdict": EventSpec(99, "C17", _words("verdict reason exit_code")),
}

_COMM_DOWN_ORDER: Final = 41
_ORDER: Final = {name: spec.order for name, spec in EVENTS.items()}


def order_of(event: str, fields: Mapping[str, object]) -> int:
    """Place of an event within its instant.

    Raises:
        KeyError: If no such event is known.
    """
    if event == "comm" and fields.get("direction") == "down":
        return _COMM_DOWN_ORDER
    return _ORDER[event]


def missing_fields(event: Mapping[str, Any]) -> list[str]:
    """Name what ``event`` lacks of its minimum.

    Args:
        event: One parsed line of an event file, other than its header.

    Returns:
        Missing names in the table's order, those of the wall part as ``wall.<name>``; ``["event"]`` if the event is
        of no known kind.
    """
    spec = EVENTS.get(event.get("event", ""))
    if spec is None:
        return ["event"]
    wall = event.get("wall") or {}
    missing = [name for name in ("t_ns", *spec.fields) if name not in event]
    return missing + [f"wall.{name}" for name in spec.wall if name not in wall]
