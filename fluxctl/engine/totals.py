"""What a run has cost so far."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Totals:
    """Counters of a run; equal on both clocks, for updates that the aggregator has handled."""

    updates: int = 0
    evaluations: int = 0  # by clients that were asked for nothing else
    forward_passes: int = 0
    directions: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    surplus: int = 0
    stale_rejected: int = 0
    abandoned: int = 0
    gated: int = 0
    rollbacks: int = 0
    best_accuracy: float | None = None
    final_accuracy: float | None = None
    client_passes: dict[int, int] = field(default_factory=dict)
    client_directions: dict[int, int] = field(default_factory=dict)
