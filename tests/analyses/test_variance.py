"""Bins are cut at commits, replays decide as the engine did, and the floor is told from the threshold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.analyses.bins import CYCLES, BinHistory, bin_histories
from fluxctl.analyses.floor import reachable_floor
from fluxctl.analyses.gate_replay import replay, sweep
from fluxctl.analyses.variance import conclusion, variance
from fluxctl.config.load import read_config
from fluxctl.config.model import GateConfig
from fluxctl.policies.commits.variance import commit_reason
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.columns import read_columns
from fluxctl.types import CommitReason


def history(variances, reason=None, number=0):
    return BinHistory(number, 0, number, tuple(variances), (2,) * len(variances), reason, 0)


def cycle(bin_, iteration, var, reason=None, round_=0):
    return {"event": "agg_round", "t_ns": 5, "round": round_, "cycle_bin": bin_, "cycle_iteration": iteration,
            "goal_count": 3, "var": var, "commit_reason": reason}  # fmt: skip


def test_a_bin_number_that_comes_again_is_another_bin(write_events):
    path = write_events(
        [cycle(0, 0, 9.0), cycle(0, 1, 1.0, "natural"), cycle(0, 0, 4.0, "cap", 1), cycle(1, 0, None, None, 1)]
    )
    found = bin_histories(read_columns(path, {"agg_round": CYCLES})["agg_round"])
    assert [(item.number, item.round, item.bin, item.variances) for item in found] == [
        (0, 0, 0, (9.0, 1.0)),
        (1, 1, 0, (4.0,)),
        (2, 1, 1, (None,)),
    ]
    assert [item.reason for item in found] == [CommitReason.NATURAL, CommitReason.CAP, None]
    assert found[0].lowest == 1.0
    assert found[2].lowest is None
    first = bin_histories(read_columns(path, {"agg_round": CYCLES})["agg_round"], max_bins=1)
    assert [item.variances for item in first] == [(9.0, 1.0)]


def test_a_run_without_cycles_has_no_bins(write_events):
    assert bin_histories(read_columns(write_events([]), {"agg_round": CYCLES})["agg_round"]) == []


def test_replays_worked_by_hand():
    # threshold 1: the first bin is natural at its third value, the second never
    bins = [history([8.0, 2.0, 0.5], CommitReason.NATURAL), history([8.0, 6.0, 5.9, 5.8], CommitReason.CAP)]
    capped = replay(GateConfig(var_threshold=1.0, stopping_policy="fixed_cap", max_iterations_per_bin=2), bins)
    assert (capped.num_cycles, capped.num_open, dict(capped.reasons)) == (4, 0, {CommitReason.CAP: 2})
    assert capped.mean_variance == (2.0 + 6.0) / 2
    natural = replay(GateConfig(var_threshold=1.0), bins)
    assert (natural.num_cycles, natural.num_open, natural.mean_variance) == (7, 1, 0.5)
    # window 2: the second bin falls from 8 to 5.9, 26 %, and from 6 to 5.8, 3 %
    plateau = GateConfig(var_threshold=1.0, stopping_policy="plateau", plateau_window=2, plateau_min_drop=0.1)
    told = replay(plateau, bins)
    assert (told.num_cycles, dict(told.reasons)) == (7, {CommitReason.NATURAL: 1, CommitReason.PLATEAU: 1})
    assert told.num_agreeing == 1


variances = st.lists(st.none() | st.floats(0.01, 100.0), min_size=30, max_size=30)


@given(st.lists(variances, min_size=1, max_size=6), st.sampled_from(["fixed_cap", "plateau"]), st.integers(1, 12))
def test_replaying_what_the_gate_recorded_gives_what_it_did(streams, policy, cap):
    gate = GateConfig(var_threshold=1.0, stopping_policy=policy, max_iterations_per_bin=cap)
    bins = []
    for number, values in enumerate(streams):
        for length in range(1, len(values) + 1):
            reason = commit_reason(gate, values[:length], length - 1)
            if reason is not None:
                bins.append(history(values[:length], reason, number))
                break
    again = replay(gate, bins)
    assert (again.num_agreeing, again.num_open) == (len(bins), 0)
    tighter = GateConfig(var_threshold=1.0, stopping_policy="fixed_cap", max_iterations_per_bin=1)
    assert replay(tighter, bins).num_cycles == len(bins)
    assert all(replay(other, bins).num_cycles <= again.num_cycles for other in sweep(gate))


def test_real_runs_are_replayed_to_their_recorded_commits(recorded_runs):
    for info in list_runs(recorded_runs):
        gate = read_config(info.folder.config).config.gate
        bins = bin_histories(read_columns(info.folder.events, {"agg_round": CYCLES})["agg_round"])
        assert len(bins) == 4
        assert replay(gate, bins).num_agreeing == 4


def test_the_floor():
    bins = [history([8.0, 4.0]), history([8.0, 0.9]), history([9.0, 3.0, 5.0])]
    floor = reachable_floor(1.0, bins)
    assert (floor.num_bins, floor.num_reached, floor.lowest, floor.median_lowest) == (3, 1, 0.9, 3.0)
    # 2 iterations at 4 need 8 at 1; 3 iterations at 5 need 15
    assert floor.projected == (8 + 15) / 2
    assert floor.is_below
    assert not reachable_floor(1.0, bins[1:2]).is_below
    nothing = reachable_floor(1.0, [history([None])])
    assert (nothing.num_bins, nothing.lowest, nothing.is_below) == (0, None, False)


@pytest.mark.parametrize(
    ("gate", "bins", "told"),
    [
        ({}, [], "The run made no cycle, so its gate decided nothing."),
        ({"enabled": False}, [history([None], CommitReason.NATURAL)], "The gate is off: each of 1 cycle committed."),
        ({}, [history([None])], "No variance was ever defined in 1 cycle: a bin needs at least two updates."),
        (
            {"var_threshold": 1.0},
            [history([8.0, 4.0], CommitReason.CAP)],
            "The gate is below the reachable floor: 0 of 1 bin came to the threshold of 1, the median bin got down to "
            "4, and would take about 8 iterations to; 50.0% of the cycles committed nothing.",
        ),
        (
            {"var_threshold": 5.0},
            [history([8.0, 4.0], CommitReason.NATURAL)],
            "The gate can be reached: 1 of 1 bin came to the threshold of 5, the median bin took 2 iterations; 50.0% "
            "of the cycles committed nothing.",
        ),
    ],
)
def test_the_sentence(gate, bins, told):
    config = GateConfig(**gate)
    assert conclusion(config, bins, reachable_floor(config.var_threshold, bins)) == told


def test_a_config_that_is_not_the_runs_own_is_noticed(run_copy):
    folder = run_copy()
    assert len(variance(folder).notes) == 1
    folder.config.write_text(folder.config.read_text().replace("var_threshold: 2.0", "var_threshold: 200.0"))
    assert "give the recorded commit for 0 of 4 bins only" in variance(folder).notes[1]


def test_what_a_replay_cannot_know_is_said(recorded_runs):
    folder = list_runs(recorded_runs)[0].folder
    analysis = variance(folder, max_bins=2)
    assert "nobody measured" in analysis.notes[0]
    assert analysis.notes[-1] == "Only the first 2 bins are looked at."
    assert (analysis.data["num_bins"], len(analysis.data["bins"])) == (2, 2)
    curves, others = analysis.charts
    assert len(curves.points) == analysis.data["num_cycles"]
    assert {row[0] for row in others.points} == {item["label"] for item in analysis.data["sweep"][1:]}
    for chart in analysis.charts:
        assert len(chart.draw().traces) >= 3
