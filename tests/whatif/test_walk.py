"""A walk is a run: the clock without threads shows the aggregator what the virtual clock shows it."""

import pytest

from fluxctl.data.worlds import build_world
from fluxctl.engine.messages import StepReport
from fluxctl.engine.run import build_engine
from fluxctl.engine.trainer import StepOutput
from fluxctl.errors import InvariantError, RunBrokeError
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.reader import read_events
from fluxctl.telemetry.writer import EventWriter
from fluxctl.types import Verdict, ns_from_s
from fluxctl.whatif.solo_clock import SoloClock
from fluxctl.whatif.stub import Answers, NoLearner, even_shards, trainable_layout, without_learning
from fluxctl.whatif.walk import Setup, sample, walk

ASYNC = {"aggregation__style": "async", "aggregation__staleness": {"name": "downweight"}}
WORLDS = {
    "sync": {},
    "sync, cohort kept": {"selection__per": "bin"},
    "async": ASYNC,
    "async, exact": {"aggregation__style": "async"},
    "staggered": {**ASYNC, "aggregation__refill": "staggered", "aggregation__stagger_s": 0.5},
    "slots, unaware": {"availability__trace": "syn_50"},
    "slots, heartbeat": {**ASYNC, "availability__trace": "syn_50", "availability__knowledge": "heartbeat"},
    "phones, notified": {**ASYNC, "availability__trace": "mobiperf_2st", "availability__knowledge": "client_notify"},
    "phones, shrink": {"availability__trace": "mobiperf_3st_50", "availability__on_lost": "shrink"},
    "phones, abort": {
        **ASYNC,
        "availability__trace": "mobiperf_2st",
        "availability__knowledge": "oracular",
        "availability__on_unavailable": "abort",
    },
    "oort, links": {**ASYNC, "selection__policy": {"name": "async_oort"}, "links__model": "lognormal"},
    "delays off": {"delays__enabled": False},
}


class ReadyMade:
    """The workload that :class:`Answers` stands for, for a run with threads."""

    def __init__(self, answers):
        self._answers = answers

    def receive(self, task):
        pass

    def step(self, task):
        return StepOutput(self._answers(task).payload, StepReport(0, 0, 0.0))


def run_events(folder, config, layout, *, solo):
    answers = Answers(layout, config.gate.tracked_tensor, config.data.batch_size, len(config.data.classes))
    clock = SoloClock(answers, lambda t, count: None) if solo else None
    learner, shards = NoLearner(layout, len(config.data.classes)), even_shards(config)
    folder.mkdir()
    with EventWriter(folder) as writer:
        writer.header({})
        engine = build_engine(config, learner, shards, writer, workload=ReadyMade(answers), clock=clock)
        stop = engine.run()
    return stop, folder / "events.jsonl"


@pytest.mark.feature("F23")
@pytest.mark.parametrize("changes", WORLDS.values(), ids=WORLDS)
def test_the_events_are_those_of_the_engine_with_threads(config_of, tmp_path, changes):
    config = config_of(**changes)
    layout = trainable_layout(config)
    config = without_learning(config, layout, 2)
    stop, events = run_events(tmp_path / "threads", config, layout, solo=False)
    walked, walked_events = run_events(tmp_path / "solo", config, layout, solo=True)
    assert (walked.verdict, walked.reason) == (stop.verdict, stop.reason)
    assert canonical_hash(walked_events) == canonical_hash(events)
    assert sum(event["event"] == "agg_round" for event in read_events(events)) >= 6


def setup_of(config, cycles=2):
    return Setup(config, trainable_layout(config), build_world(config), even_shards(config), cycles, ns_from_s(3600))


def test_a_walk_counts_what_the_run_does(config_of, tmp_path):
    config = config_of(**ASYNC, availability__trace="syn_50", availability__knowledge="oracular")
    setup = setup_of(config)
    found = walk(setup)
    _, path = run_events(tmp_path / "run", without_learning(config, setup.layout, 2), setup.layout, solo=False)
    events = list(read_events(path))
    for what, kind in (("cycles", "agg_round"), ("updates", "trainer_round"), ("withheld", "withheld_delivery")):
        assert found.tally.total(what) == sum(event["event"] == kind for event in events)
    for direction in ("down", "up"):
        sizes = [event["bytes"] for event in events if event["event"] == "comm" and event["direction"] == direction]
        assert found.tally.total(f"bytes_{direction}") == sum(sizes)
    assert (found.num_bins, found.tally.total("bins")) == (6, 6)
    assert found.end is not None
    assert found.end.verdict is Verdict.COMPLETED
    assert sum(found.tally.slots_ns.values()) == found.tally.until_ns


def test_a_sample_is_whole_bins(config_of):
    """Bins of 2 x 3 updates: counting begins with the first commit and ends with the first after the wanted number."""
    setup = setup_of(config_of(limits__max_bins=None))
    found = sample(setup, 0, ns_from_s(50_000), 40)
    assert found.end is None
    assert found.tally.total("cycles") == 2 * found.tally.total("bins") == 2 * found.num_bins - 2
    assert found.tally.total("updates") == 6 * found.tally.total("bins")
    assert 36 <= found.tally.total("updates") <= 42


def test_a_sample_of_long_bins_is_not_whole_bins(config_of):
    found = sample(setup_of(config_of(limits__max_bins=None), cycles=100), 0, ns_from_s(50_000), 40)
    assert found.num_bins == 0
    assert 35 <= found.tally.total("updates") <= 40  # from 20 to 60


def test_a_sample_may_begin_later_and_ends_in_time(config_of):
    setup = setup_of(config_of(limits__max_bins=None, **ASYNC))
    later = sample(setup, ns_from_s(20_000), ns_from_s(20_500), 10_000)
    assert later.tally.since_ns > ns_from_s(20_000)
    assert later.tally.until_ns < ns_from_s(20_520)
    from_start = sample(setup, 0, ns_from_s(500), 10_000)
    here, there = (part.tally.total("updates") / part.tally.seconds for part in (later, from_start))
    assert here == pytest.approx(there, rel=0.1)


def test_the_solo_clock_refuses_to_wait_for_ever(config_of):
    clock = SoloClock(lambda task: None, lambda t, count: None)
    with pytest.raises(InvariantError, match="no aggregator"):
        clock.run()
    from fluxctl.engine.channel import Mailbox

    with pytest.raises(RunBrokeError, match="nothing is due"):
        clock.wait(Mailbox("aggregator"))
    assert clock.wait(Mailbox("aggregator"), 5) is False
    assert clock.now() == 5
