"""The synthetic run that the rungs' tests start from is a valid one."""

from __future__ import annotations

from fluxctl.telemetry.events import EVENTS, missing_fields
from fluxctl.telemetry.reader import read_events
from fluxctl.types import Mode


def test_it_has_every_kind_of_event_with_all_that_it_must_carry(make_run, tmp_path) -> None:
    for mode in Mode:
        events = list(read_events(make_run(tmp_path / mode, mode) / "events.jsonl"))
        never = {"trainer_eval", "rollback"}  # it asks for neither
        assert {event["event"] for event in events} == set(EVENTS) - never
        assert [missing_fields(event) for event in events] == [[]] * len(events)
        times = [event["t_ns"] for event in events]
        assert times == sorted(times)


def test_a_pair_agrees_on_everything_but_the_wall(pair) -> None:
    real, sim = pair()
    assert real.columns.counts == sim.columns.counts
    assert (real.num_units, sim.num_units) == (30, 30)
    assert list(real.commit_s) == list(sim.commit_s)
    assert 0 < real.intrinsic_s[-1] - sim.intrinsic_s[-1] < 0.02 * sim.intrinsic_s[-1]


def test_an_edit_changes_one_field_of_one_side(pair) -> None:
    def later(event):
        return event | {"var": 9.0} if event["event"] == "agg_round" else event

    real, sim = pair(right=later)
    assert set(sim.cycles.numbers("var")) == {9.0}
    assert 9.0 not in real.cycles.numbers("var")
    assert list(real.cycles.ints("t_ns")) == list(sim.cycles.ints("t_ns"))
