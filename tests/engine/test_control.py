"""K and C that move while a run goes on, and the server's optimizers, inside whole runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fluxctl.config.model import Config
from fluxctl.types import NS_PER_S, Verdict
from fluxctl.world.availability import SlotTrace

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
ASYNC: dict[str, Any] = {"aggregation__style": "async", "aggregation__staleness__name": "downweight"}


def control(name: str, **params: Any) -> dict[str, Any]:
    """Decides every three commits over the last six."""
    return {
        "aggregation__control__name": name,
        "aggregation__control__params": {"update_every": 3, "window": 6, "goal_min": 1, "concurrency_min": 1, **params},
    }


def sized(num: int, goal: int, concurrency: int) -> dict[str, Any]:
    return {"clients__num_clients": num, "aggregation__goal": goal, "aggregation__concurrency": concurrency}


class TestControl:
    @pytest.mark.feature("B4")
    @pytest.mark.parametrize(
        ("name", "overrides", "goals"),
        [
            # Two iterations a bin, more than the target of one: K grows by two until it meets C.
            ("iterations", {**control("iterations", target=1.0), "gate__var_threshold": 1e-9}, [3, 5, 6, 6]),
            # One iteration a bin: K shrinks to its least.
            ("iterations", {**control("iterations", target=9.0), "gate__var_threshold": 1e9}, [3, 1, 1, 1]),
            # The first variance of a bin is far above and far below the threshold.
            ("variance", {**control("variance", goal_step=1), "gate__var_threshold": 1e-9}, [3, 4, 5, 6]),
            ("variance", {**control("variance", goal_step=1), "gate__var_threshold": 1e9}, [3, 2, 1, 1]),
        ],
        ids=["more", "fewer", "noisy", "calm"],
    )
    @pytest.mark.parametrize("style", [{}, ASYNC], ids=["sync", "async"])
    def test_the_goal_follows_its_controller(
        self,
        run_engine: RunEngine,
        config_of: ConfigOf,
        style: dict[str, Any],
        name: str,
        overrides: dict[str, Any],
        goals: list[int],
    ) -> None:
        """Asked after commits 6, 9 and 12: a window needs six."""
        run = run_engine(config_of(**style, **overrides, **sized(12, 3, 6), limits__max_bins=14))
        assert run.error is None
        events = run.of("control")
        assert [event["controller"] for event in events] == [name] * len(events)
        assert [events[0]["goal_before"], *(event["goal"] for event in events)] == goals
        assert all(a["goal"] == b["goal_before"] for a, b in zip(events, events[1:], strict=False))
        assert all(event["goal"] <= event["concurrency"] == event["concurrency_before"] == 6 for event in events)
        assert all(event["inputs"] for event in events)
        self.check_that_cycles_obey(run)

    @pytest.mark.feature("B4", "A10")
    def test_concurrency_shrinks_while_updates_are_stale(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        """C of 12 for K of 1: updates are about ten versions old, and each decision takes a tenth of C away."""
        config = config_of(**ASYNC, **control("staleness", target=2.0), **sized(20, 1, 12), limits__max_bins=60)
        run = run_engine(config)
        assert run.error is None
        sizes = [event["concurrency"] for event in run.of("control")]
        assert sizes[:4] == [12, 11, 10, 9]  # not yet stale at first; then a tenth each time, at least one
        assert sizes[-1] <= 5
        self.check_that_cycles_obey(run)
        held = [event["in_flight"] + event["num_chosen"] for event in run.of("selection")]
        assert max(held[-5:]) == sizes[-1] < held[0] == 12

    @pytest.mark.feature("B4", "A10")
    def test_concurrency_grows_while_updates_are_fresh(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        """From as many trainer threads as there were slots at first, to more of them."""
        config = config_of(**ASYNC, **control("staleness", target=50.0), **sized(20, 2, 2), limits__max_bins=60)
        run = run_engine(config)
        assert run.error is None
        sizes = [event["concurrency"] for event in run.of("control")]
        assert sizes[:17] == [*range(3, 16), 17, 19, 20, 20]  # a tenth, rounded, at least one; 20 clients at most
        assert run.ledger.most_in_flight > 10
        assert run.engine.clock.unfinished() == []
        self.check_that_cycles_obey(run)

    @pytest.mark.feature("B4")
    @pytest.mark.parametrize("style", [{}, ASYNC], ids=["sync", "async"])
    def test_both_follow_the_clients_that_can_be_reached(
        self, run_engine: RunEngine, config_of: ConfigOf, style: dict[str, Any]
    ) -> None:
        """Shares of 0.1 and 0.3 of about half of 60 clients."""
        config = config_of(
            **style,
            **control("eligible", goal_frac=0.1, concurrency_frac=0.3),
            **sized(60, 10, 30),
            availability__trace="syn_50",
            availability__knowledge="oracular",
            limits__max_bins=20,
        )
        run = run_engine(config, trace=SlotTrace(2, 20 * NS_PER_S, 0.5))
        assert run.error is None
        assert run.stop.verdict is Verdict.COMPLETED
        for event in run.of("control"):
            found = event["inputs"]["mean_eligible"]
            assert 15 < found < 45
            assert event["goal"] == max(1, round(0.1 * found))
            assert event["concurrency"] == round(0.3 * found)
        self.check_that_cycles_obey(run)

    @pytest.mark.feature("B4", "G5")
    def test_off_decides_nothing(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        run = run_engine(config_of(limits__max_bins=14))
        assert run.of("control") == []
        assert {(event["goal"], event["dynamic_c"]) for event in run.of("agg_round")} == {(3, 3)}

    def check_that_cycles_obey(self, run: Any) -> None:
        """Each cycle has the K and each selection the C that were decided last before it.

        The audited ledger has checked at each dispatch that no more than the C of that moment are in flight.
        """
        events = [event for event in run.events if event["event"] in ("selection", "agg_round", "control")]
        first = next(event for event in events if event["event"] == "agg_round")
        goal, concurrency = first["goal"], first["dynamic_c"]
        assert any(event["event"] == "control" for event in events)
        for event in events:
            if event["event"] == "control":
                assert (event["goal_before"], event["concurrency_before"]) == (goal, concurrency)
                goal, concurrency = event["goal"], event["concurrency"]
                assert 1 <= goal <= concurrency
            elif event["event"] == "agg_round":
                assert (event["goal"], event["dynamic_c"]) == (goal, concurrency)
                assert event["goal_count"] == goal
            else:
                assert event["effective_c"] == concurrency
                assert event["requested"] == concurrency - event["in_flight"]


class TestServerOptimizer:
    OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
        "sgd": lambda params: torch.optim.SGD(params, lr=0.05),
        "momentum": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.8),
        "adam": lambda params: torch.optim.Adam(params, lr=0.05, betas=(0.7, 0.95), eps=1e-3),
        "adagrad": lambda params: torch.optim.Adagrad(params, lr=0.05, eps=1e-3),
    }
    SETTINGS: dict[str, Any] = {
        "server__lr": 0.05,
        "server__momentum": 0.8,
        "server__beta1": 0.7,
        "server__beta2": 0.95,
        "server__eps": 1e-3,
    }

    @pytest.mark.feature("B15")
    @pytest.mark.parametrize("clip_norm", [None, 0.4])
    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_a_run_steps_as_torch_does_on_the_same_aggregates(
        self, run_engine: RunEngine, config_of: ConfigOf, name: str, clip_norm: float | None
    ) -> None:
        aggregates: list[torch.Tensor] = []
        versions: list[torch.Tensor] = []

        def watch(engine: Any) -> None:
            trainer = engine.bin_trainer
            versions.append(trainer.params.clone())
            close = trainer.close

            def watched(*args: Any) -> Any:
                outcome = close(*args)
                if outcome.reason is not None:
                    aggregates.append(trainer._aggregate.clone())
                    versions.append(trainer.params.clone())
                return outcome

            trainer.close = watched

        config = config_of(**self.SETTINGS, server__optimizer=name, server__clip_norm=clip_norm, limits__max_bins=8)
        run_engine(config, workload="learner", before_run=watch)
        assert len(aggregates) == 8
        leaf = torch.nn.Parameter(versions[0].clone())
        optimizer = self.OPTIMIZERS[name]([leaf])
        for aggregate, version in zip(aggregates, versions[1:], strict=True):
            leaf.grad = aggregate.clone()
            if clip_norm is not None:
                assert float(torch.linalg.vector_norm(aggregate)) > clip_norm  # so it is a test
                torch.nn.utils.clip_grad_norm_([leaf], clip_norm)
            optimizer.step()
            torch.testing.assert_close(version, leaf.detach(), rtol=1e-5, atol=1e-6)

    @pytest.mark.feature("B15")
    def test_every_optimizer_makes_another_run(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        names = [*self.OPTIMIZERS, "yogi"]
        hashes = {
            run_engine(config_of(**self.SETTINGS, server__optimizer=name), workload="learner").hash for name in names
        }
        assert len(hashes) == len(names)

    @pytest.mark.feature("B15")
    def test_a_linear_schedule_ends_at_nothing(self, run_engine: RunEngine, config_of: ConfigOf) -> None:
        """Ten bins, no warm-up: steps of 1, .9, ... .1 of the learning rate; equal aggregates would show it."""
        lengths: list[float] = []

        def watch(engine: Any) -> None:
            trainer = engine.bin_trainer
            close = trainer.close

            def watched(*args: Any) -> Any:
                before = trainer.params.clone()
                outcome = close(*args)
                if outcome.reason is not None:
                    step = torch.linalg.vector_norm(trainer.params - before)
                    lengths.append(float(step / torch.linalg.vector_norm(trainer._aggregate)))
                return outcome

            trainer.close = watched

        config = config_of(server__schedule="linear", server__lr=0.5, limits__max_bins=10)
        run_engine(config, workload="learner", before_run=watch)
        assert lengths == pytest.approx([0.5 * (10 - step) / 10 for step in range(10)], rel=1e-4)
