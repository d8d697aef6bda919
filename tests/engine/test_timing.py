"""Function times (C15): of steps that were asked for and done, each counted once, and never in the hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fluxctl import wall
from fluxctl.config.model import Config
from fluxctl.engine.timing import OFF, FunctionTimer, timer
from fluxctl.types import NS_PER_S
from fluxctl.world.delays import build_delays

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]

pytestmark = pytest.mark.feature("C15")
OVER_COMMIT: dict[str, Any] = {"aggregation__goal": 3, "aggregation__concurrency": 4, "clients__num_clients": 4}
ON: dict[str, Any] = {**OVER_COMMIT, "telemetry__step_timing": True}
REAL: dict[str, Any] = {"mode": "real", "engine__wall_factor": 100.0}
MODES = pytest.mark.parametrize("mode", [{}, REAL], ids=["sim", "real"])
CLIENT = ("held_weights", "local_step", "encode_update", "client_step")


class Ticking:
    """Real time by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        monkeypatch.setattr(wall, "monotonic_ns", lambda: self.now_ns)

    def spend(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S)


def test_what_a_function_calls_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 s in all: 1 + 2 of the outer one's own, 3 + 1 in the middle, around 3 of the innermost."""
    clock, timed = Ticking(monkeypatch), FunctionTimer()
    with timed("outer"):
        clock.spend(1)
        with timed("middle"):
            clock.spend(3)
            with timed("inner"):
                clock.spend(3)
            clock.spend(1)
        clock.spend(2)
    assert [(time.function, time.duration_s) for time in timed.times] == [("inner", 3), ("middle", 4), ("outer", 3)]


def test_what_raises_leaves_no_time_and_its_caller_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, timed = Ticking(monkeypatch), FunctionTimer()
    with timed("outer"):
        clock.spend(1)
        with pytest.raises(OSError, match="disk"):
            fail(clock, timed)
    assert [(time.function, time.duration_s) for time in timed.times] == [("outer", 3)]


def fail(clock: Ticking, timed: FunctionTimer) -> None:
    with timed("failing"):
        with timed("done"):
            clock.spend(2)
        raise OSError("disk")


def test_off_it_measures_nothing() -> None:
    assert timer(is_on=False) is OFF
    with OFF("anything"):
        pass
    assert OFF.times == ()


def timings(run: Any) -> list[dict[str, Any]]:
    return [note for note in run.notes if note["event"] == "step_timing"]


@pytest.mark.wall
@MODES
class TestRuns:
    """The same lines on both clocks; only their durations differ."""

    def test_every_step_that_came_in_and_no_other(
        self, run_engine: RunEngine, config_of: ConfigOf, mode: dict[str, Any]
    ) -> None:
        run = run_engine(config_of(**ON, **mode), workload="learner")
        assert run.of("agg_round")[-1]["surplus_total"] > 0  # whose steps were cut off: they leave nothing
        steps = [(e["client"], e["round"], e["bin"], e["iteration"]) for e in run.of("trainer_round")]
        lines = timings(run)
        places = Counter((n["client"], n["round"], n["bin"], n["iteration"], n["function"]) for n in lines)
        of_server = {"aggregate": len(run.of("agg_round")), "evaluate": len(run.of("agg_eval")) - 1}
        assert {key: num for key, num in places.items() if key[0] is not None} == {
            (*step, function): 1 for step in steps for function in CLIENT
        }
        assert Counter(n["function"] for n in lines if n["client"] is None) == of_server
        assert all(n["duration_s"] >= 0 for n in lines)

    def test_a_step_that_fails_leaves_nothing(
        self, run_engine: RunEngine, config_of: ConfigOf, stub_learner: Any, mode: dict[str, Any]
    ) -> None:
        config = config_of(**ON, **mode, engine__on_trainer_error="drop", limits__max_bins=3)
        fastest = min(range(4), key=build_delays(config.delays, config.seed).duration_ns)  # never surplus

        class Failing(stub_learner):  # type: ignore[misc]
            def step(self, request: Any) -> Any:
                if request.samples[0] // 8 == fastest:  # each client owns eight texts
                    raise OSError("disk")
                return super().step(request)

        run = run_engine(config, workload="learner", learner=Failing())
        assert [note["client"] for note in run.notes if note["event"] == "trainer_failed"] == [fastest]
        assert {n["client"] for n in timings(run)} == {None, 0, 1, 2, 3} - {fastest}

    def test_the_hash_is_blind_to_it(self, run_engine: RunEngine, config_of: ConfigOf, mode: dict[str, Any]) -> None:
        plain, timed = (run_engine(config_of(**options, **mode), workload="learner") for options in (OVER_COMMIT, ON))
        assert timings(plain) == []
        assert plain.hash == timed.hash


def test_evaluations_of_clients_are_timed_as_well(run_engine: RunEngine, config_of: ConfigOf) -> None:
    config = config_of(
        telemetry__step_timing=True, selection__policy__name="async_oort", aggregation__style="async",
        aggregation__staleness__name="accept", aggregation__goal=2, aggregation__concurrency=4, limits__max_bins=20,
        selection__policy__params={"eval_goal_factor": 1.0, "eval_rest_rounds": 2},
    )  # fmt: skip
    run = run_engine(config, workload="learner")
    num = len(run.of("trainer_eval"))
    assert num > 0
    assert [n["function"] for n in timings(run)].count("measure") == num
