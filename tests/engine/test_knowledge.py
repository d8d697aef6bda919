"""What the aggregator knows of clients that come and go, and what the events tell of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from engine_worlds import ASYNC, AWAY, COPING, KNOWLEDGE, ORACLE, STYLES, TRACKED, ConfigOf, RunEngine, TraceOf, sized

from fluxctl.data.worlds import knowledge_params
from fluxctl.engine.ledger import set_fingerprint
from fluxctl.types import NS_PER_S
from fluxctl.world.availability import AVAILABLE, SlotTrace
from fluxctl.world.knowledge import build_knowledge


class TestKnowledge:
    @pytest.mark.feature("B18", "A28")
    @KNOWLEDGE
    @STYLES
    def test_who_is_offered_is_who_is_believed_to_be_there(
        self, run_engine: RunEngine, config_of: ConfigOf, knowledge: dict[str, Any], style: dict[str, Any]
    ) -> None:
        """Against the belief in each client at the time of each selection; who is busy is told by the stream."""
        config = config_of(**{**TRACKED, **style, **knowledge}, **sized(30, 4, 6))
        trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
        run = run_engine(config, trace=trace)
        assert run.error is None
        belief = build_knowledge(knowledge_params(config.availability), trace)
        lengths = []
        for event in run.of("selection"):
            states = [belief.believed_state(client, event["t_ns"]) for client in range(30)]
            there = {client for client in range(30) if states[client] in AVAILABLE}
            assert set(event["chosen"]) <= there
            assert event["num_chosen"] == min(event["requested"], event["num_eligible"])
            assert event["num_eligible"] <= len(there)
            counts = {state.value: states.count(state) for state in states}
            assert event["avail_composition"] == counts
            assert event["decision_fingerprint"] == f"{set_fingerprint(tuple(event['chosen'])):016x}"
            lengths.append(len(there))
        assert len(lengths) >= 12
        assert (min(lengths) < 30) == (config.availability.knowledge != "unaware")

    @pytest.mark.feature("B18")
    def test_unaware_asks_those_who_are_away_and_an_oracle_never(
        self, run_engine: RunEngine, config_of: ConfigOf
    ) -> None:
        asked_in_vain = {}
        for name, knowledge in COPING.items():
            config = config_of(**{**TRACKED, **ASYNC, **knowledge}, **sized(30, 4, 6))
            trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
            run = run_engine(config, trace=trace)
            asked_in_vain[name] = sum(
                trace.state(event["client"], event["dispatch_ns"]) not in AVAILABLE for event in run.of("dispatch")
            )
        assert asked_in_vain["oracular"] == asked_in_vain["two states"] == 0  # reported without latency
        assert min(asked_in_vain[name] for name in ("unaware", "notify", "heartbeat")) > 0
        assert asked_in_vain["unaware"] == max(asked_in_vain.values())

    @pytest.mark.feature("B18")
    @pytest.mark.parametrize(("num_states", "expected"), [(3, [0, 1]), (2, [1, 2])])
    def test_two_states_take_a_client_that_can_only_evaluate_for_gone(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        num_states: int,
        expected: list[int],
        lowest_first: Any,
    ) -> None:
        config = config_of(
            **AWAY,
            **sized(3, 2, 2),
            availability__knowledge="client_notify",
            availability__num_states=num_states,
        )
        run = run_engine(config, trace=trace_of({0: [(0, "E")]}, 3), selector=lowest_first())
        assert run.of("selection")[0]["chosen"] == expected
        composition = run.of("selection")[0]["avail_composition"]
        assert composition == ({"AVL_TRAIN": 2, "AVL_EVAL": 1} if num_states == 3 else {"AVL_TRAIN": 2, "UN_AVL": 1})

    @pytest.mark.feature("B18")
    @pytest.mark.parametrize(("estimator", "expected"), [("central_difference", [0, 1]), ("backprop", [1, 2])])
    def test_back_propagation_needs_a_client_that_can_train(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        trace_of: TraceOf,
        estimator: str,
        expected: list[int],
        lowest_first: Any,
    ) -> None:
        config = config_of(**ORACLE, **sized(3, 2, 2), step__estimator=estimator)
        run = run_engine(config, trace=trace_of({0: [(0, "E")]}, 3), selector=lowest_first())
        assert run.of("selection")[0]["chosen"] == expected

    @pytest.mark.feature("A10")
    @KNOWLEDGE
    def test_slots_stay_filled_while_anybody_is_there(
        self, run_engine: RunEngine, config_of: ConfigOf, knowledge: dict[str, Any]
    ) -> None:
        """200 clients, half of them there: each selection gets what it asks for, so that C are always in flight."""
        config = config_of(**{**TRACKED, **ASYNC, **knowledge, "limits__max_bins": 20}, **sized(200, 5, 10))
        run = run_engine(config, trace=SlotTrace(5, 20 * NS_PER_S, 0.5))
        assert run.ledger.most_in_flight == 10
        assert {event["in_flight"] + event["num_chosen"] for event in run.of("selection")} == {10}
        waits = [event["in_flight"] for event in run.of("agg_round")]
        assert waits
        assert all(in_flight >= 10 - 5 for in_flight in waits)


class TestEvents:
    @pytest.mark.feature("C8", "C14")
    def test_who_comes_and_goes_is_told_when_it_happens_and_when_it_is_known(
        self, run_engine: RunEngine, config_of: ConfigOf, trace_of: TraceOf, lowest_first: Any
    ) -> None:
        trace = trace_of(
            {
                1: [(0, "T"), (15, "E"), (25, "-"), (9000, "T")],
                2: [(0, "-"), (12, "T")],
                3: [(0, "T"), (20, "-"), (22, "T")],
            },
            4,
        )
        config = config_of(
            **{**AWAY, "limits__max_bins": 4},
            **sized(4, 1, 1),
            availability__knowledge="client_notify",
            availability__notify_latency_s=4.0,
        )
        run = run_engine(config, trace=trace, selector=lowest_first())
        assert run.engine.aggregator.logical_now == 40 * NS_PER_S
        changes = [(e["t_ns"] / NS_PER_S, e["client"], e["old"], e["new"]) for e in run.of("avail_change")]
        assert changes == [
            (12, 2, "UN_AVL", "AVL_TRAIN"),
            (15, 1, "AVL_TRAIN", "AVL_EVAL"),
            (20, 3, "AVL_TRAIN", "UN_AVL"),
            (22, 3, "UN_AVL", "AVL_TRAIN"),
            (25, 1, "AVL_EVAL", "UN_AVL"),
        ]
        beliefs = [(e["t_ns"] / NS_PER_S, e["client"], e["state"], e["source"]) for e in run.of("agg_belief_change")]
        assert beliefs == [
            (16, 2, "AVL_TRAIN", "client_notify"),
            (19, 1, "AVL_EVAL", "client_notify"),
            (24, 3, "UN_AVL", "client_notify"),  # what is reported has passed already
            (26, 3, "AVL_TRAIN", "client_notify"),
            (29, 1, "UN_AVL", "client_notify"),
        ]
        for event in (*run.of("avail_change"), *run.of("agg_belief_change")):
            assert event.get("engine_s", event.get("observed_s")) == event["t_ns"] / NS_PER_S

    @pytest.mark.feature("C8", "C14")
    def test_the_unaware_learn_nothing_and_the_always_available_change_nothing(
        self, run_engine: RunEngine, config_of: ConfigOf
    ) -> None:
        trace = SlotTrace(5, 20 * NS_PER_S, 0.5)
        unaware = run_engine(config_of(**{**TRACKED, **COPING["unaware"]}, **sized(30, 4, 6)), trace=trace)
        assert unaware.of("avail_change")
        assert unaware.of("agg_belief_change") == []
        assert run_engine(config_of()).of("avail_change") == []
        for client in range(30):  # each change starts from where the last one ended
            events = unaware.of_client("avail_change", client)
            assert all(a["new"] == b["old"] for a, b in pairwise(events))
            assert all(event["old"] != event["new"] for event in events)

    @pytest.mark.feature("C10")
    @pytest.mark.parametrize("selector", ["oort", "async_oort", "random"])
    def test_what_was_believed_of_a_clients_utility_and_what_it_was(
        self, run_engine: RunEngine, config_of: ConfigOf, selector: str
    ) -> None:
        """The utility of a client of the null workload is 1 + its number; unknown until its first update."""
        style = ASYNC if selector == "async_oort" else {}
        run = run_engine(config_of(**style, selection__policy__name=selector, limits__max_bins=12))
        events = run.of("utility_belief")
        if selector == "random":
            assert events == []
            return
        committed = [client for _, clients, _ in run.commits for client in clients]
        assert sorted(event["client"] for event in events) == sorted(committed)
        seen = set[int]()
        for event in events:
            assert event["actual"] == 1.0 + event["client"]
            assert event["believed"] == (event["actual"] if event["client"] in seen else None)
            assert event["staleness"] >= (0 if event["client"] in seen else 1)
            seen.add(event["client"])
        assert len(seen) < len(events)
