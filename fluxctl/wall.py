"""The one module that reads the real time.

Everything else asks an engine clock. A leaf, so that progress lines, supervision and the wall clock share one source
and a test can find every reader of real time by looking for imports of this module.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fluxctl.types import NS_PER_S, Ns


def monotonic_ns() -> Ns:
    """Nanoseconds on the monotonic clock; only differences mean anything."""
    return time.monotonic_ns()


def monotonic_s() -> float:
    """Seconds on the monotonic clock; only differences mean anything."""
    return time.monotonic_ns() / NS_PER_S


def thread_cpu_ns() -> Ns:
    """Processor nanoseconds used by the calling thread."""
    return time.thread_time_ns()


def utc_now() -> datetime:
    """The calendar time, for names and provenance."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Sleep for real; only for supervision loops that poll another process."""
    time.sleep(seconds)
