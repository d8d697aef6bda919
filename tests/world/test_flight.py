"""What becomes of a dispatch: hand-computed cases, and the plan against a scan of every nanosecond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.config.model import DelaysConfig
from fluxctl.types import NEVER, Availability, Ns
from fluxctl.world.availability import AVAILABLE, AlwaysAvailable, Exhaustion, RecordedTrace, Timeline
from fluxctl.world.availability.states import States
from fluxctl.world.bandwidth import BandwidthParams, Direction, build_bandwidth
from fluxctl.world.delays import build_delays, straggler_offset_ns
from fluxctl.world.flight import ClientWorld, FlightPlan, GiveUp
from fluxctl.world.knowledge import Knowledge, KnowledgeParams, Unaware, build_knowledge

TRAIN, EVAL, GONE = Availability.AVL_TRAIN, Availability.AVL_EVAL, Availability.UN_AVL
S = 1_000_000_000
Changes = list[tuple[Ns, Availability]]
Mode = Literal["continue", "pause", "abort"]


def trace_of(changes: Changes, end: Ns = 10_000 * S, exhaustion: Exhaustion = Exhaustion.HOLD) -> RecordedTrace:
    return RecordedTrace.of({0: Timeline.of(changes, end, exhaustion)})


def world_of(
    changes: Changes | None,
    *,
    work_ns: Ns = 20 * S,
    mode: Mode = "continue",
    knowledge: KnowledgeParams | None = None,
    links: BandwidthParams | None = None,
    abandon_after: Ns = 90 * S,
    straggler_spread_s: float = 0.0,
    eligible: States = AVAILABLE,
    end: Ns = 10_000 * S,
    exhaustion: Exhaustion = Exhaustion.HOLD,
    **delays: Any,
) -> ClientWorld:
    """One client with a constant D; evicts whenever the aggregator knows anything."""
    trace = AlwaysAvailable() if changes is None else trace_of(changes, end, exhaustion)
    policy = knowledge or KnowledgeParams()
    return ClientWorld(
        delays=build_delays(DelaysConfig(model="constant", low_s=1e-9, high_s=work_ns / S, **delays), 0),
        trace=trace,
        knowledge=build_knowledge(policy, trace),
        bandwidth=build_bandwidth(links or BandwidthParams(), 0),
        eligible=eligible,
        on_unavailable=mode,
        straggler_spread_s=straggler_spread_s,
        abandon_after_ns=abandon_after,
        evicts=policy.policy != "unaware",
    )


def seconds(plan: FlightPlan) -> tuple[float, ...]:
    """Due, delivery, give-up and return of a plan in seconds; -1 = never, -2 = there is none."""
    times = (plan.due_ns, plan.delivery_ns, plan.give_up_ns, plan.back_ns)
    return tuple(-2 if t is None else -1 if t >= NEVER else t / S for t in times)


ORACLE = KnowledgeParams(policy="oracular")
AWAY_10_TO_50: Changes = [(0, TRAIN), (10 * S, GONE), (50 * S, TRAIN)]
AWAY_10_TO_300: Changes = [(0, TRAIN), (10 * S, GONE), (300 * S, TRAIN)]
GONE_FROM_10: Changes = [(0, TRAIN), (10 * S, GONE)]


@pytest.mark.feature("A14", "A15", "A26", "A36")
@pytest.mark.parametrize(
    ("changes", "kwargs", "expected", "why"),
    [
        # D is 20 s, the dispatch at 0, abandon_after 90 s: (due, delivery, given up, back)
        ([(0, TRAIN)], {}, (20, 20, -2, -1), None),
        # Compute goes on offline, so the update is ready at 20; it is delivered when the client is back.
        (AWAY_10_TO_50, {}, (20, 50, -2, -1), None),
        # 10 s of work are done at 10, the other 10 from 50 on.
        (AWAY_10_TO_50, {"mode": "pause"}, (60, 60, -2, -1), None),
        # Lost at 10. Nobody knows before 90, when it has been back for 40 s.
        (AWAY_10_TO_50, {"mode": "abort"}, (-1, -1, 90, 90), GiveUp.SILENT),
        (AWAY_10_TO_300, {"mode": "abort"}, (-1, -1, 90, 300), GiveUp.SILENT),
        (GONE_FROM_10, {"mode": "abort"}, (-1, -1, 90, -1), GiveUp.SILENT),
        (GONE_FROM_10, {"mode": "pause"}, (-1, -1, 90, -1), GiveUp.SILENT),
        (GONE_FROM_10, {}, (20, -1, 90, -1), GiveUp.SILENT),
        # Away for longer than anybody waits: given up at 90, the update comes at 300.
        (AWAY_10_TO_300, {}, (20, 300, 90, -1), GiveUp.SILENT),
        # Who knows that it is away when its update is due does not wait.
        (AWAY_10_TO_300, {"knowledge": ORACLE}, (20, 300, 20, -1), GiveUp.BOUNDARY),
        (AWAY_10_TO_50, {"knowledge": ORACLE}, (20, 50, 20, -1), GiveUp.BOUNDARY),
        # It is known 25 s later, at 35; or only at 60, when the update is here already.
        (
            AWAY_10_TO_50,
            {"knowledge": KnowledgeParams(policy="client_notify", notify_latency_s=25.0)},
            (20, 50, 35, -1),
            GiveUp.BOUNDARY,
        ),
        (
            AWAY_10_TO_50,
            {"knowledge": KnowledgeParams(policy="client_notify", notify_latency_s=50.0)},
            (20, 50, -2, -1),
            None,
        ),
        # The last ping came at 0; with a period of 15 s and 3 misses it is thought alive until 45.
        (
            AWAY_10_TO_50,
            {"knowledge": KnowledgeParams(policy="heartbeat", heartbeat_every_s=15.0, allowed_misses=3)},
            (20, 50, 45, -1),
            GiveUp.BOUNDARY,
        ),
        # A client that evaluates can do forward passes, but not back-propagation.
        ([(0, TRAIN), (10 * S, EVAL), (50 * S, TRAIN)], {}, (20, 20, -2, -1), None),
        (
            [(0, TRAIN), (10 * S, EVAL), (50 * S, TRAIN)],
            {"eligible": frozenset({TRAIN}), "mode": "pause"},
            (60, 60, -2, -1),
            None,
        ),
        # It does not come back by going from training to evaluation, both of which let it work: it goes at 15.
        (
            [(0, TRAIN), (10 * S, EVAL), (15 * S, GONE), (100 * S, TRAIN)],
            {"mode": "abort"},
            (-1, -1, 90, 100),
            GiveUp.SILENT,
        ),
        # Given up at 12, while it is still at work: it is not asked again before it has lost that, at 15, and is back.
        (
            [(0, TRAIN), (10 * S, EVAL), (15 * S, GONE), (100 * S, TRAIN)],
            {"mode": "abort", "abandon_after": 12 * S},
            (-1, -1, 12, 100),
            GiveUp.SILENT,
        ),
        # Back for a moment and gone again when it is given up: it is not asked again before it is reachable.
        (
            [(0, TRAIN), (10 * S, GONE), (20 * S, TRAIN), (30 * S, GONE), (500 * S, TRAIN)],
            {"mode": "abort"},
            (-1, -1, 90, 500),
            GiveUp.SILENT,
        ),
        # Slower than anybody waits: given up at 90 although it is there, and its update still comes.
        ([(0, TRAIN)], {"work_ns": 120 * S}, (120, 120, 90, -1), GiveUp.SILENT),
        # Exactly as slow: the update counts.
        ([(0, TRAIN)], {"work_ns": 90 * S}, (90, 90, -2, -1), None),
        # A client that goes in the instant in which it is done has done its work, and is away.
        ([(0, TRAIN), (20 * S, GONE), (30 * S, TRAIN)], {"mode": "abort"}, (20, 30, -2, -1), None),
    ],
)
def test_by_hand(changes: Changes, kwargs: dict[str, Any], expected: tuple[float, ...], why: GiveUp | None) -> None:
    plan = world_of(changes, **kwargs).plan(0, 0, passes=2, bytes_down=0, bytes_up=0)
    assert seconds(plan) == expected
    assert plan.give_up is why
    assert plan.duration_ns == kwargs.get("work_ns", 20 * S)


@pytest.mark.feature("A26")
def test_a_client_that_is_away_at_the_dispatch_is_asked_in_vain() -> None:
    """Only the unaware do so. Compute needs the message, which `continue` lets through, as it lets compute go on."""
    changes: Changes = [(0, GONE), (400 * S, TRAIN)]
    assert seconds(world_of(changes).plan(0, 0, 2, 0, 0)) == (20, 400, 90, -1)
    assert seconds(world_of(changes, mode="pause").plan(0, 0, 2, 0, 0)) == (420, 420, 90, -1)
    assert seconds(world_of(changes, mode="abort").plan(0, 0, 2, 0, 0)) == (-1, -1, 90, 400)


@pytest.mark.feature("A14")
def test_eviction_can_be_switched_off() -> None:
    world = replace(world_of(AWAY_10_TO_300, knowledge=ORACLE), evicts=False)
    plan = world.plan(0, 0, 2, 0, 0)
    assert (plan.give_up_ns, plan.give_up) == (90 * S, GiveUp.SILENT)


@pytest.mark.feature("A22")
def test_links_charge_the_bytes_and_replace_the_network_share_of_d() -> None:
    links = BandwidthParams(model="constant", down_bytes_per_s=1_000.0, up_bytes_per_s=500.0)
    plan = world_of(None, links=links, compute_frac=0.7).plan(0, 5 * S, passes=2, bytes_down=4_000, bytes_up=3_000)
    # 70 % of 20 s, 4,000 bytes at 1,000 a second, 3,000 at 500
    assert plan.due_ns == plan.delivery_ns == (5 + 14 + 4 + 6) * S
    assert plan.duration_ns == 24 * S
    off = world_of(None, compute_frac=0.7).plan(0, 5 * S, passes=2, bytes_down=4_000, bytes_up=3_000)
    assert off.due_ns == 25 * S


@pytest.mark.feature("A22", "A35")
def test_passes_scale_the_compute_share_alone() -> None:
    per_pass = {"compute_model": "per_pass", "reference_passes": 2, "compute_frac": 0.7}
    plan = world_of(None, **per_pass).plan(0, 0, passes=20, bytes_down=0, bytes_up=0)
    assert plan.due_ns == (6 + 140) * S
    assert plan.give_up_ns == 90 * S  # always reachable, but silent
    links = BandwidthParams(model="constant", down_bytes_per_s=1_000.0, up_bytes_per_s=1_000.0)
    plan = world_of(None, links=links, **per_pass).plan(0, 0, passes=20, bytes_down=1_000, bytes_up=2_000)
    assert plan.due_ns == (140 + 3) * S


@pytest.mark.feature("A22")
def test_stragglers_are_late_by_their_own_constant() -> None:
    """The extra time is part of the leg, not of compute: a pause leaves it alone."""
    offset = straggler_offset_ns(0, 8.0)
    assert 0 < offset < 8 * S
    plan = world_of(None, straggler_spread_s=8.0).plan(0, 0, 2, 0, 0)
    assert (plan.due_ns, plan.duration_ns) == (20 * S + offset, 20 * S + offset)
    paused = world_of(AWAY_10_TO_50, mode="pause", straggler_spread_s=8.0).plan(0, 0, 2, 0, 0)
    assert paused.due_ns == 60 * S + offset
    aborted = world_of([(0, TRAIN), (20 * S, GONE)], mode="abort", straggler_spread_s=8.0).plan(0, 0, 2, 0, 0)
    assert aborted.due_ns == 20 * S + offset  # its work was done before it went


def test_a_plan_may_be_asked_for_in_any_order() -> None:
    world = world_of(AWAY_10_TO_300, knowledge=ORACLE)
    times = [0, 250 * S, 5 * S, 9_999 * S, 0]
    plans = [world.plan(0, t, 2, 0, 0) for t in times]
    assert plans[0] == plans[-1]
    assert [plan.dispatch_ns for plan in plans] == times


def test_who_is_seen() -> None:
    always, trace = world_of(None), world_of(AWAY_10_TO_50)
    assert always.always_available
    assert always.sees_everyone
    assert not trace.always_available
    assert trace.sees_everyone  # unaware
    aware = world_of(AWAY_10_TO_50, knowledge=ORACLE)
    assert not aware.sees_everyone
    assert [aware.is_believed_eligible(0, t * S) for t in (9, 10, 49, 50)] == [True, False, False, True]
    assert isinstance(trace.knowledge, Unaware)


# Against a scan -------------------------------------------------------------------------------------------------------

END = 40  # of the hand-made data
LIMIT = 1_000  # beyond it nothing new happens: 12 ns of work need at most 12 periods of 40


def scan(world: ClientWorld, t: Ns, work: Ns, leg: Ns) -> FlightPlan:
    """The plan by looking at every nanosecond."""
    horizon = range(t, LIMIT)
    available = {u: world.trace.state(0, u) in world.eligible for u in range(LIMIT + 1)}

    def first(start: Ns, wanted: bool) -> Ns:
        return next((u for u in range(min(start, LIMIT), LIMIT) if available[u] is wanted), NEVER)

    done, left = NEVER, work
    for u in horizon:
        if world.on_unavailable == "abort" and not available[u]:
            break
        left -= world.on_unavailable != "pause" or available[u]
        if left == 0:
            done = u + 1
            break
    due = NEVER if done == NEVER else done + leg
    delivery = first(due, wanted=True)
    give_up: tuple[Ns | None, GiveUp | None] = (None, None)
    for u in horizon:
        if u >= delivery:
            break
        if u - t >= world.abandon_after_ns:
            give_up = (u, GiveUp.SILENT)
            break
        if world.evicts and u >= due and world.knowledge.believed_state(0, u) not in world.eligible:
            give_up = (u, GiveUp.BOUNDARY)
            break
    back = NEVER
    if due == NEVER:
        assert give_up[0] is not None
        gone = first(t, wanted=False)
        back = first(max(gone, give_up[0]), wanted=True)
    return FlightPlan(t, due, delivery, work + leg, give_up[0], give_up[1], back)


states = st.sampled_from([TRAIN, EVAL, GONE])
changes_lists = st.lists(st.tuples(st.integers(0, END - 1), states), max_size=8).map(
    lambda changes: sorted(changes, key=lambda change: change[0])  # of several at one time the last holds
)
policies = st.one_of(
    st.just(KnowledgeParams()),
    st.just(ORACLE),
    st.builds(
        lambda latency, num: KnowledgeParams(policy="client_notify", notify_latency_s=latency / S, num_states=num),
        st.integers(0, 30),
        st.sampled_from([2, 3]),
    ),
    st.builds(
        lambda every, misses: KnowledgeParams(policy="heartbeat", heartbeat_every_s=every / S, allowed_misses=misses),
        st.integers(1, 15),
        st.integers(1, 3),
    ),
)


@pytest.mark.feature("A14", "A15", "A22", "A26", "A36")
@settings(max_examples=400)
@given(
    changes=changes_lists,
    exhaustion=st.sampled_from(Exhaustion),
    mode=st.sampled_from(["continue", "pause", "abort"]),
    policy=policies,
    eligible=st.sampled_from([AVAILABLE, frozenset({TRAIN})]),
    t=st.integers(0, 2 * END),
    work=st.integers(1, 12),
    num_bytes=st.integers(0, 6),
    abandon_after=st.integers(1, 60),
)
def test_against_a_scan(
    changes: Changes,
    exhaustion: Exhaustion,
    mode: Mode,
    policy: KnowledgeParams,
    eligible: States,
    t: Ns,
    work: Ns,
    num_bytes: int,
    abandon_after: Ns,
) -> None:
    """A byte travels a nanosecond, so that messages are part of it; D is all compute."""
    world = world_of(
        changes,
        work_ns=work,
        mode=mode,
        knowledge=policy,
        links=BandwidthParams(model="constant", down_bytes_per_s=float(S), up_bytes_per_s=float(S)),
        abandon_after=abandon_after,
        eligible=eligible,
        end=END,
        exhaustion=exhaustion,
        compute_frac=1.0,
    )
    leg = sum(world.bandwidth.transfer_ns(0, num_bytes, direction) for direction in Direction)
    assert leg == 2 * num_bytes
    assert world.plan(0, t, passes=2, bytes_down=num_bytes, bytes_up=num_bytes) == scan(world, t, work, leg)


def test_knowledge_is_a_protocol_of_plain_functions() -> None:
    """A plan asks beliefs for the future as well, so any implementation that is a function of time will do."""

    class Suspicious:
        def believed_state(self, client: int, t: Ns) -> Availability:
            return GONE if t >= 33 * S else TRAIN

        def next_belief_change(self, client: int, t: Ns, until: Ns) -> Ns | None:
            return 33 * S if t < 33 * S <= until else None

    knowledge: Knowledge = Suspicious()  # type: ignore[assignment]
    world = replace(world_of(AWAY_10_TO_50), knowledge=knowledge, evicts=True)
    plan = world.plan(0, 0, 2, 0, 0)
    assert (plan.give_up_ns, plan.give_up) == (33 * S, GiveUp.BOUNDARY)
