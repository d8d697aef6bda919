"""Evaluations that take engine time: none by default, a modelled time, or what they took."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from fluxctl.config.model import Config
from fluxctl.types import NS_PER_S, Verdict

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
TEN_SECONDS: dict[str, Any] = {
    "delays__model": "constant",
    "delays__high_s": 10.0,
    "gate__enabled": False,
    "limits__max_bins": 4,
}
BOTH = pytest.mark.parametrize("mode", [{}, {"mode": "real", "engine__wall_factor": 400.0}], ids=["sim", "real"])


def modelled(seconds: float) -> dict[str, Any]:
    return {"engine__charge_evaluation": "modelled", "engine__evaluation_s": seconds}


def commit_times(run: Any) -> list[float]:
    return [t / NS_PER_S for t, *_ in run.commits]


@pytest.mark.feature("A22")
def test_off_is_as_if_it_did_not_exist(run_engine: RunEngine, config_of: ConfigOf) -> None:
    hashes = {run_engine(config_of(**options)).hash for options in ({}, {"engine__evaluation_s": 77.0}, modelled(0.0))}
    assert len(hashes) == 1


@pytest.mark.feature("A22", "A1")
@pytest.mark.wall
@BOTH
def test_a_modelled_one_takes_time_after_each_commit(
    run_engine: RunEngine, config_of: ConfigOf, mode: dict[str, Any]
) -> None:
    """10 s of work and 7 s of evaluation, in turn; the untrained model's evaluation is not charged."""
    run = run_engine(config_of(**TEN_SECONDS, **modelled(7.0), **mode))
    assert commit_times(run) == [10, 27, 44, 61]
    assert [e["t_ns"] / NS_PER_S for e in run.of("agg_eval")] == [0, 10, 27, 44, 61]
    assert {e["dispatch_ns"] / NS_PER_S for e in run.of("dispatch")} == {0, 17, 34, 51}


@pytest.mark.feature("A22", "A1")
@pytest.mark.wall
def test_both_clocks_agree(run_engine: RunEngine, config_of: ConfigOf) -> None:
    style = {"aggregation__style": "async", "aggregation__staleness__name": "downweight", "aggregation__concurrency": 6}
    modes: tuple[dict[str, Any], ...] = ({"mode": "real", "engine__wall_factor": 100.0}, {})
    real, sim = (run_engine(config_of(**style, **modelled(2.5), **mode)) for mode in modes)
    assert [real.error, sim.error] == [None, None]
    assert real.hash == sim.hash


@pytest.mark.feature("A22")
def test_an_async_aggregator_takes_nothing_in_meanwhile(run_engine: RunEngine, config_of: ConfigOf) -> None:
    """All of C = 4 come at 10 s; K = 1, so each waits until the evaluation after the one before it is over."""
    config = config_of(
        **TEN_SECONDS, **modelled(3.0), aggregation__style="async", aggregation__staleness__name="accept",
        aggregation__goal=1, aggregation__concurrency=4,
    )  # fmt: skip
    run = run_engine(config)
    assert commit_times(run) == [10, 13, 16, 19]
    assert [e["visibility_lag_s"] for e in run.of("agg_round")] == [[0.0], [3.0], [6.0], [9.0]]


@pytest.mark.feature("A22", "A23")
def test_it_does_not_pass_the_budget(run_engine: RunEngine, config_of: ConfigOf) -> None:
    run = run_engine(config_of(**TEN_SECONDS, **modelled(1e6), **{"limits__max_runtime_s": 1000.0}))
    assert run.stop.verdict is Verdict.COMPLETED
    assert run.engine.aggregator.logical_now == 1000 * NS_PER_S
    assert commit_times(run) == [10]


@pytest.mark.feature("A22")
def test_a_measured_one_takes_what_it_took(run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any) -> None:
    class Slow(stub_learner):  # type: ignore[misc]
        def evaluate(self, params: Any) -> Any:
            time.sleep(0.02)
            return super().evaluate(params)

    run = run_engine(config_of(**TEN_SECONDS, engine__charge_evaluation="measured"), learner=Slow())
    starts = sorted({e["dispatch_ns"] / NS_PER_S for e in run.of("dispatch")})
    assert len(starts) == 4
    assert all(10.02 <= later - earlier < 15 for earlier, later in pairwise(starts))
