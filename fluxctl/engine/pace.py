"""How fast a run goes: engine time against wall time, and a line now and then for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from fluxctl import wall
from fluxctl.types import NS_PER_S, Ns, s_from_ns

PROGRESS_EVERY_S = 0.5


@dataclass
class Pace:
    """Engine and wall time since the first dispatch."""

    _first_dispatch_wall_ns: Ns | None = None
    _first_dispatch_ns: Ns = 0
    _last_commit_wall_ns: Ns | None = None
    _last_commit_ns: Ns = 0
    _last_line_s: float = 0.0

    def dispatched(self, t: Ns) -> None:
        """A client is asked at logical time ``t``; the first one starts the clocks."""
        if self._first_dispatch_wall_ns is None:
            self._first_dispatch_wall_ns, self._first_dispatch_ns = wall.monotonic_ns(), t

    def committed(self, t: Ns) -> None:
        """A bin is committed at logical time ``t``."""
        self._last_commit_wall_ns, self._last_commit_ns = wall.monotonic_ns(), t

    def is_line_due(self) -> bool:
        """Whether it is time for another line of progress; taken as given if so."""
        now_s = wall.monotonic_s()
        if now_s - self._last_line_s < PROGRESS_EVERY_S:
            return False
        self._last_line_s = now_s
        return True

    def at(self, t: Ns) -> dict[str, float | None]:
        """Wall seconds and engine seconds per wall second from the first dispatch to logical time ``t``, now."""
        return self._between(t, wall.monotonic_ns())

    def to_last_commit(self) -> tuple[float, float, float | None]:
        """Engine seconds, wall seconds and sim rate from the first dispatch to the last commit."""
        if self._last_commit_wall_ns is None:
            return 0.0, 0.0, None
        pace = self._between(self._last_commit_ns, self._last_commit_wall_ns)
        return s_from_ns(self._last_commit_ns), pace["wall_s"] or 0.0, pace["sim_rate"]

    def _between(self, t: Ns, now_ns: Ns) -> dict[str, float | None]:
        if self._first_dispatch_wall_ns is None:
            return {"wall_s": 0.0, "sim_rate": None}
        wall_s = (now_ns - self._first_dispatch_wall_ns) / NS_PER_S
        return {"wall_s": wall_s, "sim_rate": s_from_ns(t - self._first_dispatch_ns) / wall_s if wall_s > 0 else None}
