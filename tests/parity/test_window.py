"""The comparable part of two runs."""

from __future__ import annotations

import numpy as np
import pytest

from fluxctl.parity.result import Options, Status
from fluxctl.parity.support import judged_support
from fluxctl.parity.window import Window, engine_steps_s, per_client_share, row_maxima, runs_of_mode, windows
from fluxctl.telemetry.columns import MISSING_INT, AbsentField, Ragged
from fluxctl.types import Mode


def test_the_wall_run_comes_first_wherever_it_stands(pair) -> None:
    real, sim = pair()
    for sides in ((real, sim), (sim, real)):
        assert [window.run.mode for window in windows(*sides, Options())] == [Mode.REAL, Mode.SIM]
    assert [window.run for window in windows(sim, sim, Options())] == [sim, sim]
    assert list(runs_of_mode(Mode.REAL, real, sim)) == [real]


def test_both_runs_end_with_the_last_bin_that_both_committed(pair) -> None:
    def cut(event):
        return event | {"commit_reason": None} if event.get("cycle", 0) >= 41 else event

    real, sim = windows(*pair(None, cut), Options())
    assert (real.num_units, int(real.in_cycle.sum()), int(sim.in_cycle.sum())) == (20, 40, 40)
    assert real.end_ns == sim.end_ns == int(real.run.cycles.ints("t_ns")[39])
    assert len(engine_steps_s(real)) == 39


def test_a_selection_at_the_end_belongs_to_what_follows(pair) -> None:
    window = Window(pair()[0], 10)
    assert int(window.selections().sum()) == 20
    assert len(window.numbers("selection", "num_eligible")) == 20
    assert len(window.numbers("trainer_round", "modelled_d_s")) == 100
    assert len(window.pooled("agg_round", "trainer_speed_s")) == 100


def test_nothing_committed_is_nothing_to_compare(pair) -> None:
    window = Window(pair()[0], 0)
    assert (window.end_ns, int(window.in_cycle.sum()), len(window.advances_s)) == (0, 0, 0)
    assert len(window.numbers("selection", "num_eligible")) == 0


def test_time_and_modelled_time_of_bins(pair) -> None:
    sim = Window(pair()[1], 30)
    # A synchronous bin takes as long as the slowest client of each of its two cycles.
    assert sim.advances_s == pytest.approx(sim.modelled_s)
    assert sim.advances_s.sum() == pytest.approx(sim.end_ns / 1e9)


def test_events_that_do_not_occur_are_absent(pair) -> None:
    window = Window(pair(lambda event: None if event["event"] == "selection" else event)[0], 3)
    with pytest.raises(AbsentField, match="selection"):
        window.selections()


def test_row_maxima_skip_empty_rows() -> None:
    lists = Ragged(np.array([1.0, 5.0, 2.0, 3.0]), np.array([0, 0, 2, 2, 4, 4]))
    assert np.array_equal(row_maxima(lists), [np.nan, 5.0, np.nan, 3.0, np.nan], equal_nan=True)
    assert np.isnan(row_maxima(Ragged(np.array([]), np.array([0, 0])))).all()


def test_shares_by_client() -> None:
    clients = np.array([4, 7, 4, MISSING_INT])
    assert per_client_share(clients, np.array([True, True, False, True])).tolist() == [0.5, 1.0]
    assert len(per_client_share(np.array([], np.int64), np.array([], bool))) == 0


def test_support() -> None:
    reference = np.linspace(1, 2, 100)
    assert judged_support(reference, reference, "x").status is Status.PASS
    assert judged_support(reference, 1.2 * reference, "x").status is Status.FAIL
    assert judged_support(reference, 1.1 * reference, "x", warn_ks=0.1).status is Status.WARN
    assert judged_support(reference, reference[:19], "x").status is Status.INCONCLUSIVE
    nothing = judged_support(np.zeros(30), reference, "x")
    assert (nothing.status, nothing.value) == (Status.FAIL, None)
    assert judged_support(np.zeros(30), np.zeros(30), "x").status is Status.PASS
