"""One run as the rungs see it: the columns of its events, its configuration, and the axes that rungs share.

A pair is read once; after that every rung works on arrays. What depends on the wall (``wall.*``) is read beside what
does not, and only the clock rungs look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.config.model import Config
from fluxctl.telemetry.columns import Columns, Floats, Ints, Kind, Table, read_columns
from fluxctl.types import NS_PER_S, Mode

_F, _I, _L, _FS, _IS = Kind.FLOAT, Kind.INT, Kind.LABEL, Kind.FLOATS, Kind.INTS

WANTED: Final[Mapping[str, Mapping[str, Kind]]] = {
    "agg_round": {
        "t_ns": _I,
        "round": _I,
        "cycle": _I,
        "goal": _I,
        "goal_count": _I,
        "staleness": _IS,
        "stat_utility": _FS,
        "trainer_speed_s": _FS,
        "contributing_trainers": _IS,
        "contributor_intervals[].dispatch": _FS,
        "contributor_intervals[].commit": _FS,
        "visibility_lag_s": _FS,
        "cycle_bin": _I,
        "cycle_iteration": _I,
        "grad_pool_size": _I,
        "cached_pool_size": _I,
        "version": _I,
        "engine_s": _F,
        "var": _F,
        "var_threshold": _F,
        "var_good": _I,
        "commit_reason": _L,
        "dynamic_c": _I,
        "num_eligible": _I,
        "grad_norm": _F,
        "model_checksum": _L,
        "wall.wall_s": _F,
        "wall.eval_s": _F,
        "wall.aggregate_s": _F,
        "wall.intrinsic_span_s": _F,
        "wall.inversions": _I,
        "wall.arrival_order": _IS,
    },
    "trainer_round": {
        "t_ns": _I,
        "client": _I,
        "version": _I,
        "modelled_d_s": _F,
        "training_budget_s": _F,
        "wall.compute_s": _F,
        "wall.pre_train_s": _F,
        "wall.to_device_s": _F,
        "wall.train_s": _F,
        "wall.from_device_s": _F,
        "wall.fetch_s": _F,
        "wall.post_train_s": _F,
        "wall.overran": _I,
    },
    "task_send": {
        "t_ns": _I,
        "client": _I,
        "send_ns": _I,
        "send_gate_wait_s": _F,
        "wall.send_s": _F,
    },
    "task_recv": {"client": _I, "dispatch_ns": _I, "wall.mode": _L},
    "dispatch": {"t_ns": _I, "client": _I, "dispatch_ns": _I, "attempt": _I},
    "selection": {
        "t_ns": _I,
        "num_candidates": _I,
        "num_eligible": _I,
        "avail_composition.AVL_TRAIN": _F,
        "avail_composition.AVL_EVAL": _F,
        "avail_composition.UN_AVL": _F,
        "chosen": _IS,
        "num_chosen": _I,
        "in_flight": _I,
        "eligible_fingerprint": _L,
        "decision_fingerprint": _L,
        "effective_c": _I,
        "preferred_duration_s": _F,
        "detail.duration_s": _FS,
        "detail.score": _FS,
        "detail.utility": _FS,
    },
    "agg_eval": {"t_ns": _I, "version": _I, "test_accuracy": _F, "test_loss": _F},
    "residence": {"t_ns": _I, "in_flight_after": _I},
    "avail_change": {"t_ns": _I, "client": _I, "old": _L, "new": _L, "engine_s": _F},
    "agg_belief_change": {"t_ns": _I, "client": _I, "state": _L},
    "withheld_delivery": {
        "t_ns": _I,
        "client": _I,
        "due_ns": _I,
        "delivery_ns": _I,
        "delay_s": _F,
        "commit_ns": _I,
    },
    "abandon": {"t_ns": _I, "client": _I, "age_s": _F, "reason": _L, "dispatch_ns": _I},
    "control": {"t_ns": _I, "goal": _I, "concurrency": _I},
}


@dataclass(frozen=True)
class Observed:
    """A run, read once.

    Attributes:
        label: How messages call it: ``left`` or ``right``, or ``real`` and ``sim``.
        mode: Its clock.
        columns: Its events.
        config: Its configuration; None if it has none that can be read, as with bare event files.
        folder: Its directory; None for a bare event file.
    """

    label: str
    mode: Mode
    columns: Columns
    config: Config | None = None
    folder: Path | None = None

    def __getitem__(self, event: str) -> Table:
        return self.columns[event]

    @property
    def cycles(self) -> Table:
        """``agg_round``: one row a cycle, in the order of commits and retries."""
        return self.columns["agg_round"]

    @property
    def updates(self) -> Table:
        """``trainer_round``: one row an update that the aggregator handled."""
        return self.columns["trainer_round"]

    @property
    def is_real(self) -> bool:
        """Whether it ran on the wall clock."""
        return self.mode is Mode.REAL

    @cached_property
    def is_commit(self) -> NDArray[np.bool_]:
        """Cycles that committed, shape ``(num_cycles,)``."""
        return np.asarray(self.cycles.labels("commit_reason").codes >= 0) if self.has_cadence else self._all_cycles()

    def _all_cycles(self) -> NDArray[np.bool_]:
        return np.ones(len(self.cycles), dtype=bool)

    @cached_property
    def has_cadence(self) -> bool:
        """Whether the events carry bins and reasons of commits (D0d); otherwise every cycle is a round of its own."""
        return "commit_reason" in self.cycles and "cycle_bin" in self.cycles

    @cached_property
    def unit_of_cycle(self) -> Ints:
        """Which committed bin each cycle belongs to, from 0, by commit count and never by bin number (D0d).

        A bin that the end of the run cut off has the number of commits as its unit.
        """
        commits = self.is_commit.astype(np.int64)
        return np.cumsum(commits) - commits

    @cached_property
    def num_units(self) -> int:
        """Complete units of progress: committed bins, or rounds without cadence fields."""
        return int(self.is_commit.sum())

    def num_compared(self, other: Observed, max_bin: int | None) -> int:
        """Units that both runs have completed, cut at ``max_bin`` (D0e)."""
        num = min(self.num_units, other.num_units)
        return num if max_bin is None else min(num, max_bin)

    @cached_property
    def commit_s(self) -> Floats:
        """Engine seconds at the end of each complete unit, on the logical clock, shape ``(num_units,)``."""
        return self.cycles.ints("t_ns")[self.is_commit] / NS_PER_S

    @cached_property
    def intrinsic_s(self) -> Floats:
        """Clock coordinate at the end of each unit as the run's own clock measured it (D0g), shape ``(num_units,)``.

        Of a real run: cumulative measured span of the cycles, times the wall factor. An async span begins where the
        last one ended; a sync one begins with its cycle's first dispatch, so the evaluations between them are added.
        Of a simulated run: engine time.
        """
        if not self.is_real:
            return self.commit_s
        spans = np.nan_to_num(self.cycles.numbers("wall.intrinsic_span_s"))
        if self.config is not None and self.config.aggregation.style == "async":
            return np.cumsum(spans)[self.is_commit] * self.wall_factor
        # The evaluation of a commit lies behind it, so it is part of the next unit.
        evaluations = np.nan_to_num(self.cycles.numbers("wall.eval_s")) if "wall.eval_s" in self.cycles else 0 * spans
        before = np.cumsum(evaluations) - evaluations
        return (np.cumsum(spans) + before)[self.is_commit] * self.wall_factor

    @cached_property
    def wall_s(self) -> Floats:
        """Wall seconds since the first dispatch at the end of each unit, shape ``(num_units,)``."""
        return self.cycles.numbers("wall.wall_s")[self.is_commit]

    @property
    def wall_factor(self) -> float:
        """Engine seconds that a second of a real run's wall clock stands for."""
        return 1.0 if self.config is None else self.config.engine.wall_factor

    @property
    def goal(self) -> int | None:
        """Aggregation goal K as configured."""
        return None if self.config is None else self.config.aggregation.goal


def observe_events(
    label: str, events: Path, mode: Mode, config: Config | None = None, folder: Path | None = None
) -> Observed:
    """Read an event file as one side of a comparison.

    Raises:
        NothingToDoError: If the file is absent or empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    return Observed(label, mode, read_columns(events, WANTED), config, folder)
