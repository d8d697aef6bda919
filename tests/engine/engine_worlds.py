"""Settings that several test modules of the engine start from; imported through ``pythonpath`` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxctl.config.model import Config

RunEngine = Callable[..., Any]
ConfigOf = Callable[..., Config]
TraceOf = Callable[..., Any]

# Three cadences over ten clients that are always there; D is 1 to 10 s.
OVER_COMMIT: dict[str, Any] = {"aggregation__goal": 3, "aggregation__concurrency": 6}
ASYNC_OF_SIX: dict[str, Any] = {
    "aggregation__style": "async",
    "aggregation__goal": 3,
    "aggregation__concurrency": 6,
    "aggregation__staleness__name": "downweight",
}
CADENCES = pytest.mark.parametrize("style", [{}, OVER_COMMIT, ASYNC_OF_SIX], ids=["sync", "over", "async"])
REAL: dict[str, Any] = {"mode": "real", "engine__wall_factor": 100.0}  # D of 1 to 10 s take 10 to 100 ms

# Clients that come and go: D is 10 s for everybody, every cycle commits, and the trace named is replaced by the test's.
AWAY: dict[str, Any] = {
    "availability__trace": "syn_20",
    "delays__model": "constant",
    "delays__high_s": 10.0,
    "gate__enabled": False,
    "limits__max_bins": 1,
}
ORACLE: dict[str, Any] = {**AWAY, "availability__knowledge": "oracular"}
ASYNC: dict[str, Any] = {"aggregation__style": "async", "aggregation__staleness__name": "accept"}
TRACKED: dict[str, Any] = {**ORACLE, "limits__max_bins": 12, "delays__model": "uniform"}
COPING: dict[str, dict[str, Any]] = {
    "unaware": {"availability__knowledge": "unaware"},
    "oracular": {"availability__knowledge": "oracular"},
    "notify": {"availability__knowledge": "client_notify", "availability__notify_latency_s": 7.0},
    "two states": {"availability__knowledge": "client_notify", "availability__num_states": 2},
    "heartbeat": {"availability__knowledge": "heartbeat", "availability__heartbeat_every_s": 12.0},
}
KNOWLEDGE = pytest.mark.parametrize("knowledge", COPING.values(), ids=COPING.keys())
STYLES = pytest.mark.parametrize("style", [{"selection__per": "bin"}, ASYNC], ids=["sync", "async"])


def sized(num: int, goal: int, concurrency: int) -> dict[str, Any]:
    """A federation of so many clients, with its goal and concurrency."""
    return {"clients__num_clients": num, "aggregation__goal": goal, "aggregation__concurrency": concurrency}
