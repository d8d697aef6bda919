"""What idle clients cost: the same calls, and no array as long as the population, however many of them there are."""

import sys
import tracemalloc

import pytest

from fluxctl.engine import roster
from fluxctl.engine.run import build_engine
from fluxctl.whatif.server import NoTraining
from fluxctl.whatif.solo_clock import SoloClock
from fluxctl.whatif.stub import Answers, NoLearner, NoWork, even_shards, trainable_layout, without_learning
from fluxctl.whatif.tally import Tally

FEW, MANY = 1_000, 50_000
STYLES = {
    "sync": {"aggregation__concurrency": 10},
    "async": {
        "aggregation__style": "async",
        "aggregation__staleness": {"name": "downweight"},
        "aggregation__concurrency": 30,
    },
}


@pytest.fixture
def engine_of(config_of):
    def build(selector, style, num_clients):
        config = config_of(
            **STYLES[style],
            selection__policy={"name": selector},
            aggregation__goal=10,
            clients__num_clients=num_clients,
            data__train_per_class=2 * num_clients,
            gate__enabled=False,
            limits__max_bins=30,
            limits__max_runtime_s=1e9,
        )
        layout = trainable_layout(config)
        config = without_learning(config, layout, 1)
        answers = Answers(layout, config.gate.tracked_tensor, config.data.batch_size, len(config.data.classes))
        return build_engine(
            config,
            NoLearner(layout, len(config.data.classes)),
            even_shards(config),
            Tally(span_ns=10**12),
            workload=NoWork(),
            server=NoTraining,
            clock=SoloClock(answers, lambda t, count: None),
        )

    return build


def calls_of(engine):
    """Calls of functions, built-in ones included, during a run."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        engine.run()
    finally:
        sys.setprofile(None)
    assert engine.recorder.totals.updates >= 300
    return count


def peak_bytes_of(engine):
    """Most memory that a run takes besides what it began with; arrays are counted."""
    tracemalloc.start()
    try:
        engine.run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.feature("A34")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("selector", ["random", "round_robin"])
def test_work_and_memory_of_a_commit_do_not_grow_with_idle_clients(engine_of, selector, style):
    calls = {num: calls_of(engine_of(selector, style, num)) for num in (FEW, MANY)}
    assert calls[MANY] <= 1.05 * calls[FEW]  # draws that hit a busy client differ a little
    peaks = {num: peak_bytes_of(engine_of(selector, style, num)) for num in (FEW, MANY)}
    assert peaks[MANY] < peaks[FEW] + MANY  # not even one bool for each client


@pytest.mark.feature("A34")
@pytest.mark.parametrize("selector", ["oort", "async_oort", "fastest", "fair_share", "refl"])
def test_selectors_that_look_at_everybody_do_not_loop(engine_of, selector):
    """As many calls, on longer arrays: those of the idle are listed once for each selection."""
    style = "sync" if selector == "oort" else "async"
    calls = {num: calls_of(engine_of(selector, style, num)) for num in (FEW, MANY)}
    assert calls[MANY] <= 1.05 * calls[FEW]


def test_what_grows_is_noticed(engine_of, monkeypatch):
    """Both measures see that the idle are listed at each selection, and looked at one by one."""
    few_calls, few_bytes = (measure(engine_of("random", "sync", FEW)) for measure in (calls_of, peak_bytes_of))
    of_everyone = roster.Roster._of_everyone

    def wasteful(self, *args):
        eligible = of_everyone(self, *args)
        roster.set_fingerprint(iter(eligible.ids()[:2000].tolist()))
        return eligible

    monkeypatch.setattr(roster.Roster, "_of_everyone", wasteful)
    assert calls_of(engine_of("random", "sync", MANY)) > 1.05 * few_calls
    assert peak_bytes_of(engine_of("random", "sync", MANY)) > few_bytes + MANY
