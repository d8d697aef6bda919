"""The stall rule inside the engine: it ends a run that stands still, and changes nothing where it does not fire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluxctl.config.model import Config
from fluxctl.types import Verdict

pytestmark = [pytest.mark.feature("A23"), pytest.mark.feature("E12")]


def test_a_window_that_never_ends_changes_no_event(run_engine: Callable, config_of: Callable[..., Config]) -> None:
    off, idle = config_of(), config_of(limits__stall_window_s=1e9, limits__stall_on="acc")
    assert run_engine(off).hash == run_engine(idle).hash


def test_a_run_that_stands_still_ends_stalled(run_engine: Callable, config_of: Callable[..., Config]) -> None:
    config = config_of(
        limits__stall_window_s=60.0, limits__stall_min_delta=1.0, limits__stall_on="acc", limits__max_bins=None
    )
    run = run_engine(config)
    assert (run.stop.verdict, run.stop.rule) == (Verdict.STALLED, "stall")
    rounds = run.of("agg_round")
    assert rounds[-1]["t_ns"] >= 60e9 > rounds[-2]["t_ns"]
    assert rounds[-1]["stop_reason"] == run.stop.reason


def test_a_bin_that_never_commits_is_stalled(run_engine: Callable, config_of: Callable[..., Config]) -> None:
    """Nothing is evaluated while the variance gate holds a bin open."""
    config = config_of(
        limits__stall_window_s=60.0, gate__stopping_policy="off", gate__max_iterations_per_bin=None,
        gate__var_threshold=1e-9, limits__max_bins=None,
    )  # fmt: skip
    run = run_engine(config)
    assert run.stop.verdict is Verdict.STALLED
    assert len(run.of("agg_eval")) == 1
