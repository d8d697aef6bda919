"""Counts what a run does, from its events, without keeping them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fluxctl.types import Ns, s_from_ns

_NO_FIELDS: Final[Mapping[str, object]] = {}


@dataclass
class Tally:
    """An event sink that counts over equal spans of engine time.

    Args:
        span_ns: Length of a span.
        since_ns: When counting begins; :meth:`restart` moves it.
        on_commit: Called with the time of each commit, after it was counted.
    """

    span_ns: Ns
    since_ns: Ns = 0
    on_commit: Callable[[Ns], None] = lambda t: None  # noqa: ARG005
    until_ns: Ns = 0  # how far it has counted
    # what -> span -> how many
    counts: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: Counter[str] = field(default_factory=Counter)  # of slots freed without an update
    withheld_s: float = 0.0  # waiting of updates that were ready
    slots_ns: Counter[int] = field(default_factory=Counter)  # slots in use -> for how long
    _slots: int = 0

    def restart(self, t: Ns) -> None:
        """Forget what was counted; how many slots are in use is no count."""
        self.since_ns = self.until_ns = t
        self.counts.clear()
        self.reasons.clear()
        self.slots_ns.clear()
        self.withheld_s = 0.0

    def emit(
        self,
        t_ns: Ns,
        event: str,
        fields: Mapping[str, Any],
        *,
        key: int = -1,  # noqa: ARG002 - the sink's
        wall: Mapping[str, object] | None = None,  # noqa: ARG002
    ) -> None:
        """Count an event."""
        match event:
            case "trainer_round":
                self._count("updates", t_ns)
            case "comm":
                self._count(f"bytes_{fields['direction']}", t_ns, fields["bytes"])
            case "selection":
                self._at(t_ns, fields["in_flight"] + fields["num_chosen"])
            case "abandon":
                self._count("abandons", t_ns)
                self.reasons[fields["reason"]] += 1
                self._at(t_ns, self._slots - 1)
            case "withheld_delivery":
                self._count("withheld", t_ns)
                self.withheld_s += fields["delay_s"]
            case "agg_round":
                self._count("cycles", t_ns)
                if fields["commit_reason"] is not None:
                    self._count("bins", t_ns)
                    self._at(t_ns, self._slots)
                    self.on_commit(t_ns)
            case "residence":
                self._at(t_ns, fields["in_flight_after"])

    def advance(self, watermark_ns: Ns) -> None:
        """Nothing is kept."""

    def note(self, event: str, fields: Mapping[str, object] = _NO_FIELDS) -> None:
        """Nothing here is of the wall."""

    def close(self, t: Ns) -> None:
        """The run has come to ``t``."""
        self._at(t, self._slots)

    def total(self, what: str) -> int:
        """How many in all."""
        return self.counts[what].total()

    @property
    def seconds(self) -> float:
        """Engine seconds that were counted."""
        return s_from_ns(self.until_ns - self.since_ns)

    def _count(self, what: str, t: Ns, num: int = 1) -> None:
        self.counts[what][t // self.span_ns] += num

    def _at(self, t: Ns, slots: int) -> None:
        """From ``t`` on, so many slots are in use."""
        if t > self.until_ns:
            self.slots_ns[self._slots] += t - self.until_ns
            self.until_ns = t
        self._slots = slots
