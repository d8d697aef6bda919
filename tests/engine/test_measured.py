"""What an event says of the machine and of the world: receipt, availability, spans of the wall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl import wall
from fluxctl.config.model import Config
from fluxctl.engine.virtual_clock import VirtualClock
from fluxctl.types import NS_PER_S

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
TraceOf = Callable[..., Any]

ASYNC: dict[str, Any] = {
    "aggregation__style": "async",
    "aggregation__staleness__name": "accept",
    "aggregation__concurrency": 6,
}


@pytest.mark.feature("C4")
@pytest.mark.parametrize("evaluation", ["off", "modelled"])
@pytest.mark.parametrize("style", [{}, ASYNC], ids=["sync", "async"])
def test_spans_add_up_to_engine_time_on_a_wall_that_is_the_engines_clock(
    run_engine: RunEngine,
    config_of: ConfigOf,
    monkeypatch: pytest.MonkeyPatch,
    style: dict[str, Any],
    evaluation: str,
) -> None:
    def measure_by_the_clock(engine: Any) -> None:
        monkeypatch.setattr(wall, "monotonic_ns", engine.clock.now)

    config = config_of(**style, engine__charge_evaluation=evaluation, engine__evaluation_s=5.0)
    cycles = run_engine(config, before_run=measure_by_the_clock).of("agg_round")
    spans = [cycle["wall"]["intrinsic_span_s"] for cycle in cycles]
    ends = [cycle["engine_s"] for cycle in cycles]
    assert len(cycles) > 3
    assert [sum(spans[: n + 1]) for n in range(len(spans))] == pytest.approx(ends)


@pytest.mark.feature("C4")
def test_an_async_span_has_no_gap_for_what_the_server_does(
    run_engine: RunEngine, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, stub_learner: Any
) -> None:
    """Evaluations take two seconds of the wall each, while clients work; a sync span leaves them out."""
    spent = [0]

    class Slow(stub_learner):  # type: ignore[misc]
        def evaluate(self, params: Any) -> Any:
            spent[0] += 2 * NS_PER_S
            return super().evaluate(params)

    def spent_in(**style: Any) -> tuple[float, float]:
        spent[0] = 0
        monkeypatch.setattr(wall, "monotonic_ns", lambda: spent[0])
        run = run_engine(config_of(**style, gate__enabled=False), learner=Slow())
        cycles = [cycle["wall"] for cycle in run.of("agg_round")]
        return sum(cycle["intrinsic_span_s"] for cycle in cycles), sum(cycle["wait_s"] for cycle in cycles)

    assert spent_in(**ASYNC) == (5 * 2.0, 0.0)  # before the first cycle, and after the last, nobody works
    assert spent_in() == (0.0, 0.0)  # and nobody waits while the server is at work


@pytest.mark.feature("C7")
def test_receipt_is_when_the_message_was_there(
    run_engine: RunEngine, config_of: ConfigOf, late_clock: type[VirtualClock]
) -> None:
    """Each update is two seconds late, so the next task is sent two seconds after its logical dispatch."""
    config = config_of(clients__num_clients=3, gate__enabled=False, selection__policy__name="round_robin")
    exact = run_engine(config).of("task_send")
    late = run_engine(config, clock=late_clock(lambda *_: 2 * NS_PER_S)).of("task_send")
    assert [event["wall"]["recv_s"] for event in exact] == [event["recv_ns"] / NS_PER_S for event in exact]
    behind = [event["wall"]["recv_s"] - event["recv_ns"] / NS_PER_S for event in late]
    assert behind == pytest.approx([0.0] * 3 + [2.0] * (len(late) - 3))


@pytest.mark.feature("C5", "C6")
def test_events_tell_the_state_that_a_client_was_in(
    run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf
) -> None:
    """D is 10 s. Client 0 is asked while away; client 1 can only evaluate from 4 s on; client 2 is always there."""
    config = config_of(
        clients__num_clients=3, availability__trace="syn_20", availability__knowledge="unaware",
        delays__model="constant", delays__high_s=10.0, gate__enabled=False, limits__max_bins=1,
    )  # fmt: skip
    trace = trace_of({0: [(0, "-"), (7, "T")], 1: [(0, "T"), (4, "E")]}, 3)
    run = run_engine(config, trace=trace)
    states = {name: {e["client"]: e["avail_state"] for e in run.of(name)} for name in ("task_recv", "trainer_round")}
    assert states == {
        "task_recv": {0: "UN_AVL", 1: "AVL_TRAIN", 2: "AVL_TRAIN"},
        "trainer_round": {0: "AVL_TRAIN", 1: "AVL_EVAL", 2: "AVL_TRAIN"},
    }
