"""Plans: whole, sampled, and of runs that starve."""

import pytest

from fluxctl.errors import ConfigError
from fluxctl.types import Verdict
from fluxctl.whatif.plan import COUNTED, Wishes, forecast

CHANGES = "client,t_s,state\n"


@pytest.fixture
def trace_file(tmp_path):
    def write(lines, exhaustion="stop"):
        (tmp_path / "t.csv").write_text(CHANGES + "".join(f"{line}\n" for line in lines))
        path = tmp_path / "t.yaml"
        path.write_text(
            f"description: d\nkind: file\npath: {tmp_path / 't.csv'}\nexhaustion: {exhaustion}\nhorizon_s: 100000\n"
        )
        return str(path)

    return write


@pytest.mark.feature("F23")
def test_a_short_run_is_planned_whole(config_of):
    found = forecast(config_of(), Wishes(cycles_per_bin=4))
    assert (found.verdict, found.reason) == (Verdict.COMPLETED, "the bin budget (6) is used up")
    assert not found.is_sampled
    assert (found.totals["bins"], found.totals["cycles"], found.totals["updates"]) == (6, 24, 72)
    assert found.per_hour("cycles") == pytest.approx(24 * 3600 / found.engine_s)
    assert (found.in_flight.p5, found.in_flight.p95) == (4, 4)
    assert (found.reachable.mean, found.share_below_goal, found.give_ups) == (12, 0, {})
    for what in COUNTED:
        assert sum(row[what] or 0 for row in found.rows) == pytest.approx(found.totals[what])


@pytest.mark.feature("F23")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_sample_agrees_with_the_whole(config_of, style):
    config = config_of(aggregation__style=style, limits__max_bins=None, limits__max_runtime_s=10_000.0)
    whole = forecast(config, Wishes(max_updates=100_000))
    sample = forecast(config, Wishes(max_updates=2_500))
    assert (whole.is_sampled, sample.is_sampled) == (False, True)
    for what in ("updates", "cycles", "bins", "bytes_down", "bytes_up"):
        assert sample.totals[what] == pytest.approx(whole.totals[what], rel=0.1), what
    assert sample.in_flight.mean == pytest.approx(whole.in_flight.mean, abs=0.3)
    assert sample.engine_s == pytest.approx(whole.engine_s, rel=0.001)


def test_a_sample_costs_no_more_than_was_allowed(config_of):
    """A hundred clients over six days; the bound on updates is the bound on time."""
    config = config_of(
        clients__num_clients=100, aggregation__concurrency=30, aggregation__goal=10, aggregation__style="async",
        availability__trace="mobiperf_2st", availability__knowledge="client_notify",
    )  # fmt: skip
    found = forecast(config, Wishes(until_s=6 * 86400.0, max_updates=2_000))
    assert (found.is_sampled, found.engine_s) == (True, 6 * 86400.0)
    assert found.verdict is Verdict.COMPLETED
    assert found.reason == "the plan looks no further than 518400 s"
    assert 0 < found.share_below_goal < 0.5
    assert 10 < found.reachable.mean < 25
    assert len(found.rows) == 96
    assert sum(row["cycles"] is not None for row in found.rows) >= 4


def test_a_sampled_run_ends_with_its_bin_budget(config_of):
    config = config_of(limits__max_bins=100)
    whole = forecast(config, Wishes(cycles_per_bin=10, max_updates=100_000))
    sample = forecast(config, Wishes(cycles_per_bin=10, max_updates=2_000))
    assert (whole.is_sampled, sample.is_sampled) == (False, True)
    assert sample.reason == whole.reason == "the bin budget (100) is used up"
    assert sample.totals["bins"] == pytest.approx(100, rel=0.02)
    assert sample.engine_s == pytest.approx(whole.engine_s, rel=0.1)


def test_a_budget_of_rounds_is_one_of_bins(config_of):
    found = forecast(config_of(limits__max_bins=None, limits__max_rounds=1), Wishes(cycles_per_bin=1))
    assert found.totals["bins"] == 3  # 240 texts over 12 clients in mini-batches of 8
    assert "round budget (1)" in found.reason


@pytest.mark.parametrize("max_updates", [100_000, 500])
def test_starvation_names_the_next_availability(config_of, trace_file, max_updates):
    lines = [line for client in range(12) for line in (f"{client},0,AVL_TRAIN", f"{client},2000,UN_AVL")]
    lines += ["12,0,UN_AVL"]
    trace = trace_file(sorted(lines, key=lambda line: int(line.split(",")[0])) + ["12,90000,AVL_TRAIN"])
    config = config_of(
        availability__trace=trace, availability__knowledge="oracular", clients__num_clients=13, limits__max_bins=None
    )
    found = forecast(config, Wishes(max_updates=max_updates))
    assert found.verdict is Verdict.STARVED
    assert found.reason == (
        "no client can train before the budget of 50000 engine seconds ends; the next one is reachable at 90000 s"
    )
    assert 1900 < found.engine_s < 2200 or max_updates == 500


def test_the_share_of_time_with_too_few_clients(config_of, trace_file):
    """Of 1,000 s, clients 2 and 3 are there for the first 400: with K = 3 the rest is too little."""
    lines = ["0,0,AVL_TRAIN", "1,0,AVL_TRAIN", "2,0,AVL_TRAIN", "2,400,UN_AVL", "3,0,AVL_TRAIN", "3,400,UN_AVL"]
    config = config_of(
        availability__trace=trace_file(lines), availability__on_lost="shrink", clients__num_clients=4,
        aggregation__concurrency=4, limits__max_bins=None, limits__max_runtime_s=1000.0,
    )  # fmt: skip
    found = forecast(config, Wishes(until_s=1000.0))
    assert found.share_below_goal == pytest.approx(0.6, abs=0.01)
    assert found.reachable.mean == pytest.approx(2 + 2 * 0.4, abs=0.02)
    assert found.believed.mean == 4  # unaware
    assert found.give_ups.keys() == {"silent"}


def test_memory_is_counted_from_sizes(config_of):
    found = forecast(config_of(), Wishes(cycles_per_bin=4))
    assert found.memory["features"] == 4 * (60 + 250) * 48 * 32 * 4
    assert found.memory["pool"] == 16 * found.num_params * 4  # 3 x 4 updates fit the first 16
    assert found.memory["weights"] == (4 + 4) * found.num_params * 4


def test_no_time_is_an_error(config_of):
    with pytest.raises(ConfigError, match="no time to look at"):
        forecast(config_of(), Wishes(until_s=1e-12))
