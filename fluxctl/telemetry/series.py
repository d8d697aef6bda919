"""A run as series of numbers: the one reduction of an event file that figures, analyses and reports draw from.

One pass over the file, memory in proportion to the numbers that are kept. Everything is in the order of commits; bin
numbers repeat every round and are never a key. Numbers are as recorded: nothing is smoothed, cut or filled in. What an
event lacks (a run of an older version, one that crashed) is nan or -1 in its array and never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from fluxctl.telemetry.columns import Columns, read_columns
from fluxctl.telemetry.reader import Problem
from fluxctl.telemetry.run_facts import RunFacts, read_facts
from fluxctl.telemetry.series_build import Counters, cycles_of, evaluations_of, sessions_of, updates_of
from fluxctl.telemetry.series_rows import Axis, Cycles, Evaluations, Progress, Sessions, Updates
from fluxctl.telemetry.series_totals import MessageKind, WallSplit, busy_frac, is_client, messages_of, wall_split
from fluxctl.telemetry.tables import Floats, Ints, Kind
from fluxctl.types import NS_PER_S

__all__ = [
    "WANTED",
    "Axis",
    "Cycles",
    "Evaluations",
    "MessageKind",
    "Progress",
    "RunSeries",
    "Sessions",
    "Updates",
    "WallSplit",
    "read_series",
    "reduce",
]

WANTED: Final[Mapping[str, Mapping[str, Kind]]] = {
    "agg_eval": {
        "t_ns": Kind.INT,
        "round": Kind.INT,
        "version": Kind.INT,
        "test_accuracy": Kind.FLOAT,
        "test_loss": Kind.FLOAT,
        "mcc": Kind.FLOAT,
    },
    "agg_round": {
        "t_ns": Kind.INT,
        "round": Kind.INT,
        "cycle_bin": Kind.INT,
        "cycle_iteration": Kind.INT,
        "version": Kind.INT,
        "goal_count": Kind.INT,
        "in_flight": Kind.INT,
        "staleness": Kind.INTS,
        "contributor_intervals[].client": Kind.INTS,
        "contributor_intervals[].dispatch": Kind.FLOATS,
        "contributor_intervals[].commit": Kind.FLOATS,
        "var": Kind.FLOAT,
        "var_threshold": Kind.FLOAT,
        "commit_reason": Kind.LABEL,
        "gated_total": Kind.INT,
        "grad_norm": Kind.FLOAT,
        "wall.wall_s": Kind.FLOAT,
        "wall.aggregate_s": Kind.FLOAT,
        "wall.eval_s": Kind.FLOAT,
        "wall.wait_s": Kind.FLOAT,
        "wall.intrinsic_span_s": Kind.FLOAT,
    },
    "trainer_round": {
        "t_ns": Kind.INT,
        "client": Kind.INT,
        "version": Kind.INT,
        "modelled_d_s": Kind.FLOAT,
        "wait_s": Kind.FLOAT,
        "loss": Kind.FLOAT,
        "forward_passes": Kind.INT,
        "wall.compute_s": Kind.FLOAT,
    },
    "comm": {"t_ns": Kind.INT, "direction": Kind.LABEL, "payload": Kind.LABEL, "bytes": Kind.INT},
}


@dataclass(frozen=True)
class RunSeries:
    """All numbers of one run.

    Attributes:
        facts: Who the run is and how it ended.
        evaluations: In order.
        cycles: In commit order.
        updates: In order of arrival.
        sessions: In commit order.
        messages: By direction and kind, down first.
        busy_frac: Share of the run that each client computed, shape ``(num_clients,)``; 0 for one never asked.
        participation: Updates in cohorts by client, shape ``(num_clients,)``.
        aggregator: Its wall time.
        engine_s: Engine time of the last event.
        counts: Events by kind.
        problems: Damaged lines.
    """

    facts: RunFacts
    evaluations: Evaluations
    cycles: Cycles
    updates: Updates
    sessions: Sessions
    messages: tuple[MessageKind, ...]
    busy_frac: Floats
    participation: Ints
    aggregator: WallSplit
    engine_s: float
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def passes(self) -> int:
        """Forward passes of all updates."""
        return int(self.updates.passes.sum())

    @property
    def num_commits(self) -> int:
        """Commits, which are the bins done."""
        return int(self.cycles.is_commit.sum())

    def total_bytes(self, direction: str) -> int:
        """Bytes sent ``down`` or ``up`` in the whole run."""
        return sum(kind.total_bytes for kind in self.messages if kind.direction == direction)

    @property
    def wall_s(self) -> float:
        """Wall seconds from the first dispatch to the end of the last cycle; nan without a cycle."""
        return self.aggregator.total_s


def read_series(path: str | Path) -> RunSeries:
    """Reduce a run.

    Args:
        path: A run directory, or an event file on its own (whose facts are then those of its ``run_meta`` event).

    Raises:
        NothingToDoError: If there is no event file or it is empty.
        ConfigError: If it does not begin with a header of a schema that this version reads.
    """
    folder = Path(path) if Path(path).is_dir() else None
    columns = read_columns(Path(path) if folder is None else folder / "events.jsonl", WANTED)
    return reduce(columns, read_facts(columns, folder))


def reduce(columns: Columns, facts: RunFacts) -> RunSeries:
    """Turn the columns of :data:`WANTED` into series."""
    counters = Counters(columns)
    cycles = cycles_of(columns["agg_round"], counters)
    updates = updates_of(columns["trainer_round"])
    sessions = sessions_of(columns["agg_round"])
    engine_s = columns.last_ns / NS_PER_S
    ids = np.concatenate([updates.client, sessions.client])
    num_clients = max(facts.num_clients or 0, int(ids[is_client(ids)].max(initial=-1)) + 1)
    known = sessions.client[is_client(sessions.client)]
    return RunSeries(
        facts=facts,
        evaluations=evaluations_of(columns["agg_eval"], counters),
        cycles=cycles,
        updates=updates,
        sessions=sessions,
        messages=messages_of(columns["comm"]),
        busy_frac=busy_frac(updates, num_clients, engine_s),
        participation=np.bincount(known, minlength=num_clients).astype(np.int64),
        aggregator=wall_split(cycles),
        engine_s=engine_s,
        counts=dict(columns.counts),
        problems=columns.problems,
    )
