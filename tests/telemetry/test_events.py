"""The table of events: field minima, and an order within an instant that follows the course of a cycle."""

import pytest

from fluxctl.telemetry.events import EVENTS, RESERVED, missing_fields, order_of


def complete(name: str) -> dict[str, object]:
    spec = EVENTS[name]
    return {"event": name, "t_ns": 0, **dict.fromkeys(spec.fields, 0), "wall": dict.fromkeys(spec.wall, 0)}


@pytest.mark.feature("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C9", "C11", "C16", "C17")
@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_single_missing_field_is_named(name):
    assert missing_fields(complete(name)) == []
    for field in EVENTS[name].fields:
        event = complete(name)
        del event[field]
        assert missing_fields(event) == [field]
    for field in EVENTS[name].wall:
        event = complete(name)
        del event["wall"][field]
        assert missing_fields(event) == [f"wall.{field}"]


def test_a_missing_wall_part_and_a_missing_time_are_named():
    assert missing_fields({"event": "task_recv", "client": 1, "round": 0, "dispatch_ns": 0, "avail_state": "x"}) == [
        "t_ns",
        "wall.mode",
    ]


def test_a_null_counts_as_present():
    event = complete("agg_round")
    event["var"] = None
    assert missing_fields(event) == []


@pytest.mark.parametrize("event", [{}, {"event": "no_such_event", "t_ns": 0}, {"event": "header"}])
def test_an_unknown_event_has_no_minimum(event):
    assert missing_fields(event) == ["event"]


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_minima_never_name_what_the_writer_sets(name):
    assert RESERVED.isdisjoint(EVENTS[name].fields)
    assert len(set(EVENTS[name].fields)) == len(EVENTS[name].fields)


def test_order_within_an_instant_follows_the_cycle():
    up, down = {"direction": "up"}, {"direction": "down"}
    cycle = [
        ("run_meta", {}),
        ("avail_change", {}),
        ("agg_belief_change", {}),
        ("trainer_eval", {}),
        ("trainer_round", {}),
        ("task_send", {}),
        ("comm", up),
        ("withheld_delivery", {}),
        ("abandon", {}),
        ("agg_round", {}),
        ("agg_eval", {}),
        ("utility_belief", {}),
        ("control", {}),
        ("rollback", {}),
        ("selection", {}),
        ("residence", {}),
        ("dispatch", {}),
        ("comm", down),
        ("task_recv", {}),
        ("verdict", {}),
    ]
    orders = [order_of(name, fields) for name, fields in cycle]
    assert orders == sorted(set(orders))
    assert {name for name, _ in cycle} == set(EVENTS)


def test_an_unknown_event_has_no_place():
    with pytest.raises(KeyError):
        order_of("no_such_event", {})
