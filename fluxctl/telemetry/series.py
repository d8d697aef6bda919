"""A run as series of numbers: the one reduction of an event file that figures, analyses and reports draw from.

One pass over the file, memory in proportion to the numbers that are kept. Everything is in the order of commits; bin
numbers repeat every round and are never a key. Numbers are as recorded: nothing is smoothed, cut or filled in. What an
event lacks (a run of an older version, one that crashed) is nan or -1 in its array and never an error.

Events of one instant are written in the order in which things follow from each other: updates arrive, a cycle closes,
the model is evaluated, clients are dispatched. "So far" means what the file holds before the event, which for that
order is: updates and uploads up to and including the instant, downloads before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fluxctl.telemetry.columns import MISSING_INT, Columns, Floats, Ints, Kind, Labels, Ragged, Table, read_columns
from fluxctl.telemetry.reader import Problem
from fluxctl.telemetry.run_facts import RunFacts, read_facts
from fluxctl.types import NS_PER_S

Bools: TypeAlias = "NDArray[np.bool_]"
_MAX_CLIENT: Final = 1 << 24  # a larger id is damage, and arrays by client must not follow it

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


class Axis(StrEnum):
    """What a run's progress is measured by."""

    ENGINE = "engine"
    WALL = "wall"
    PASSES = "passes"
    BYTES = "bytes"


@dataclass(frozen=True)
class Progress:
    """How far a run was at each row, arrays of one length.

    Attributes:
        engine_s: Engine time in seconds.
        wall_s: Wall seconds since the first dispatch, as of the last cycle so far; nan if not recorded.
        passes: Forward passes of the updates so far.
        bytes_down: Bytes sent to clients so far.
        bytes_up: Bytes that clients sent so far.
        num_commits: Commits so far, a commit at the row included; the bins of F1's axis.
    """

    engine_s: Floats
    wall_s: Floats
    passes: Ints
    bytes_down: Ints
    bytes_up: Ints
    num_commits: Ints

    def __len__(self) -> int:
        return len(self.engine_s)

    def along(self, axis: Axis) -> Floats:
        """The coordinate of each row on an axis: seconds, passes or bytes (both directions), float64."""
        match axis:
            case Axis.ENGINE:
                return self.engine_s
            case Axis.WALL:
                return self.wall_s
            case Axis.PASSES:
                return self.passes.astype(np.float64)
            case Axis.BYTES:
                return (self.bytes_down + self.bytes_up).astype(np.float64)


@dataclass(frozen=True)
class Evaluations(Progress):
    """Evaluations of the global model (``agg_eval``).

    Attributes:
        round: Round that the run was in; -1 if not recorded.
        accuracy: On the test set, 0 to 1.
        loss: On the test set, nats.
        mcc: Matthews correlation coefficient.
    """

    round: Ints
    accuracy: Floats
    loss: Floats
    mcc: Floats

    @property
    def peak(self) -> int | None:
        """Row of the first evaluation with the highest accuracy; None if none has a number."""
        return None if np.isnan(self.accuracy).all() else int(np.nanargmax(self.accuracy))

    def first_at(self, accuracy: float) -> int | None:
        """Row of the first evaluation with at least this accuracy; None if there is none."""
        rows = np.flatnonzero(self.accuracy >= accuracy)
        return int(rows[0]) if len(rows) else None


@dataclass(frozen=True)
class Cycles(Progress):
    """Select-to-commit cycles (``agg_round``): retries of a bin and commits.

    Attributes:
        round: Round that the cycle belongs to; -1 if not recorded.
        bin: Bin that the cycle belongs to; repeats every round.
        iteration: Pass within the bin.
        is_commit: Whether the cycle committed; all of them where no cadence is recorded.
        reason: Why (``natural``, ``cap``, ``plateau``); code -1 for a retry.
        var: Variance of the estimate; nan if there was none.
        var_threshold: The gate's bound.
        num_updates: Updates in the cohort.
        in_flight: Clients in flight after the cycle.
        staleness: Versions that each update of the cohort was behind, in commit order.
        gated_total: Updates that the staleness policy refused, so far.
        grad_norm: Norm of what was applied; nan for a retry.
        aggregate_s: Wall seconds of aggregation.
        eval_s: Wall seconds of the evaluation after it.
        span_s: Wall seconds from the cycle's first dispatch to the arrival that closed it.
    """

    round: Ints
    bin: Ints
    iteration: Ints
    is_commit: Bools
    reason: Labels
    var: Floats
    var_threshold: Floats
    num_updates: Ints
    in_flight: Ints
    staleness: Ragged
    gated_total: Ints
    grad_norm: Floats
    aggregate_s: Floats
    eval_s: Floats
    span_s: Floats

    @property
    def bin_of_cycle(self) -> Ints:
        """Which bin of the whole run each cycle worked on, from 0, by commits and not by bin number."""
        return self.num_commits - self.is_commit

    @property
    def round_ends(self) -> Ints:
        """Rows of the last cycle of each round but the last one."""
        return np.flatnonzero(np.diff(self.round) > 0)


@dataclass(frozen=True)
class Updates:
    """Updates that the aggregator took in (``trainer_round``), in order of arrival.

    Attributes:
        client: Who.
        version: Model version that it was computed on.
        dispatch_s: Engine time of dispatch.
        due_s: Engine time of arrival.
        duration_s: D, the modelled time of the step in engine seconds.
        loss: Training loss at the dispatched model, nats.
        passes: Forward passes of the step.
        compute_wall_s: Wall seconds that the step took here.
    """

    client: Ints
    version: Ints
    dispatch_s: Floats
    due_s: Floats
    duration_s: Floats
    loss: Floats
    passes: Ints
    compute_wall_s: Floats

    def __len__(self) -> int:
        return len(self.client)


@dataclass(frozen=True)
class Sessions:
    """Dispatch-to-commit spans, one for each update in a cohort, in commit order.

    Attributes:
        client: Whose.
        cycle: Row of the cycle that took it.
        dispatch_s: Engine time of its dispatch.
        commit_s: Engine time of the end of the cycle.
    """

    client: Ints
    cycle: Ints
    dispatch_s: Floats
    commit_s: Floats

    def __len__(self) -> int:
        return len(self.client)

    @property
    def span_s(self) -> Floats:
        """Engine seconds from dispatch to commit."""
        return self.commit_s - self.dispatch_s


@dataclass(frozen=True, slots=True)
class MessageKind:
    """Messages of one kind in one direction.

    Attributes:
        direction: ``down`` to clients, ``up`` from them.
        kind: What they carry.
        count: How many.
        total_bytes: Together.
        min_bytes: The smallest.
        max_bytes: The largest.
    """

    direction: str
    kind: str
    count: int
    total_bytes: int
    min_bytes: int
    max_bytes: int

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        return self.total_bytes / self.count


@dataclass(frozen=True, slots=True)
class WallSplit:
    """Where the aggregator's wall time went, seconds; the parts add up to the whole.

    Attributes:
        aggregate_s: Gate, aggregation, server step.
        eval_s: Evaluation.
        wait_s: Waiting for updates, from a cycle's first dispatch to its last arrival.
        rest_s: What is left: selection, dispatch, records.
        total_s: From the first dispatch to the end of the last cycle.
    """

    aggregate_s: float
    eval_s: float
    wait_s: float
    rest_s: float
    total_s: float


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
    counters = _Counters(columns)
    cycles = _cycles(columns["agg_round"], counters)
    updates = _updates(columns["trainer_round"])
    sessions = _sessions(columns["agg_round"])
    engine_s = columns.last_ns / NS_PER_S
    ids = np.concatenate([updates.client, sessions.client])
    num_clients = max(facts.num_clients or 0, int(ids[_is_client(ids)].max(initial=-1)) + 1)
    known = sessions.client[_is_client(sessions.client)]
    return RunSeries(
        facts=facts,
        evaluations=_evaluations(columns["agg_eval"], counters),
        cycles=cycles,
        updates=updates,
        sessions=sessions,
        messages=_messages(columns["comm"]),
        busy_frac=_busy(updates, num_clients, engine_s),
        participation=np.bincount(known, minlength=num_clients).astype(np.int64),
        aggregator=_wall_split(cycles),
        engine_s=engine_s,
        counts=dict(columns.counts),
        problems=columns.problems,
    )


class _Counters:
    """What had been done before an event, by its engine time."""

    def __init__(self, columns: Columns) -> None:
        updates, comm, cycles = columns["trainer_round"], columns["comm"], columns["agg_round"]
        labels = _labels(comm, "direction")
        size = _ints(comm, "bytes", 0)
        self._passes = _Running(_times(updates), _ints(updates, "forward_passes", 0))
        self._down, self._up = (
            _Running(_times(comm)[rows], size[rows]) for rows in (labels.equals("down"), labels.equals("up"))
        )
        self._cycle_ns = _times(cycles)
        self._wall_s = np.concatenate([[0.0], _numbers(cycles, "wall.wall_s")])
        self._commits = _Running(self._cycle_ns, is_commit(cycles).astype(np.int64))

    def at(self, t_ns: Ints) -> Progress:
        """Progress at evaluations, which follow the cycles of their instant."""
        return Progress(
            engine_s=t_ns / NS_PER_S,
            wall_s=self._wall_s[np.searchsorted(self._cycle_ns, t_ns, side="right")],
            passes=self._passes.until(t_ns),
            bytes_down=self._down.before(t_ns),
            bytes_up=self._up.until(t_ns),
            num_commits=self._commits.until(t_ns),
        )

    def at_cycles(self) -> Progress:
        """Progress at the cycles themselves, of which several may share an instant."""
        after = self.at(self._cycle_ns)
        return Progress(
            engine_s=after.engine_s,
            wall_s=self._wall_s[1:],
            passes=after.passes,
            bytes_down=after.bytes_down,
            bytes_up=after.bytes_up,
            num_commits=self._commits.totals[1:],
        )


class _Running:
    """Running total of amounts at times that never decrease."""

    def __init__(self, t_ns: Ints, amount: Ints) -> None:
        self._t_ns = t_ns
        self.totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(amount)])

    def until(self, t_ns: Ints) -> Ints:
        """Total of what happened at or before each time."""
        return np.asarray(self.totals[np.searchsorted(self._t_ns, t_ns, side="right")])

    def before(self, t_ns: Ints) -> Ints:
        """Total of what happened before each time."""
        return np.asarray(self.totals[np.searchsorted(self._t_ns, t_ns, side="left")])


def is_commit(cycles: Table) -> Bools:
    """Which cycles committed; each is a round of its own where no cadence is recorded."""
    if "cycle_bin" not in cycles and "commit_reason" not in cycles:
        return np.ones(len(cycles), dtype=bool)
    return np.asarray(_labels(cycles, "commit_reason").codes >= 0)


def _evaluations(table: Table, counters: _Counters) -> Evaluations:
    return Evaluations(
        **vars(counters.at(_times(table))),
        round=_ints(table, "round"),
        accuracy=_numbers(table, "test_accuracy"),
        loss=_numbers(table, "test_loss"),
        mcc=_numbers(table, "mcc"),
    )


def _cycles(table: Table, counters: _Counters) -> Cycles:
    return Cycles(
        **vars(counters.at_cycles()),
        round=_ints(table, "round"),
        bin=_ints(table, "cycle_bin"),
        iteration=_ints(table, "cycle_iteration"),
        is_commit=is_commit(table),
        reason=_labels(table, "commit_reason"),
        var=_numbers(table, "var"),
        var_threshold=_numbers(table, "var_threshold"),
        num_updates=_ints(table, "goal_count"),
        in_flight=_ints(table, "in_flight"),
        staleness=_lists(table, "staleness"),
        gated_total=_ints(table, "gated_total"),
        grad_norm=_numbers(table, "grad_norm"),
        aggregate_s=_numbers(table, "wall.aggregate_s"),
        eval_s=_numbers(table, "wall.eval_s"),
        span_s=_numbers(table, "wall.intrinsic_span_s"),
    )


def _updates(table: Table) -> Updates:
    due_s = _times(table) / NS_PER_S
    return Updates(
        client=_ints(table, "client"),
        version=_ints(table, "version"),
        dispatch_s=due_s - _numbers(table, "wait_s"),
        due_s=due_s,
        duration_s=_numbers(table, "modelled_d_s"),
        loss=_numbers(table, "loss"),
        passes=_ints(table, "forward_passes", 0),
        compute_wall_s=_numbers(table, "wall.compute_s"),
    )


def _sessions(table: Table) -> Sessions:
    path = "contributor_intervals[]"
    client = _lists(table, f"{path}.client")
    ids = client.values.astype(np.int64)
    return Sessions(
        client=np.where(ids == MISSING_INT, -1, ids),
        cycle=np.repeat(np.arange(len(table), dtype=np.int64), client.lengths),
        dispatch_s=_lists(table, f"{path}.dispatch").values.astype(np.float64),
        commit_s=_lists(table, f"{path}.commit").values.astype(np.float64),
    )


def _messages(comm: Table) -> tuple[MessageKind, ...]:
    direction, kind, size = _labels(comm, "direction"), _labels(comm, "payload"), _ints(comm, "bytes", 0)
    found = []
    for way in sorted(direction.names):
        for code, name in [*enumerate(kind.names), (-1, "unknown")]:
            sizes = size[direction.equals(way) & (kind.codes == code)]
            if len(sizes):
                found.append(MessageKind(way, name, len(sizes), int(sizes.sum()), int(sizes.min()), int(sizes.max())))
    return tuple(found)


def _busy(updates: Updates, num_clients: int, engine_s: float) -> Floats:
    known = _is_client(updates.client) & np.isfinite(updates.duration_s)
    busy_s = np.bincount(updates.client[known], weights=updates.duration_s[known], minlength=num_clients)
    # a client that was given up and asked again may have computed twice at once
    return np.minimum(busy_s / engine_s, 1.0) if engine_s > 0 else np.zeros(num_clients)


def _is_client(ids: Ints) -> Bools:
    return np.asarray((ids >= 0) & (ids < _MAX_CLIENT))


def _wall_split(cycles: Cycles) -> WallSplit:
    known = cycles.wall_s[np.isfinite(cycles.wall_s)]
    if not len(known):
        return WallSplit(*[float("nan")] * 5)
    total_s = float(known[-1])
    aggregate_s, eval_s, span_s = (
        float(np.nansum(part)) for part in (cycles.aggregate_s, cycles.eval_s, cycles.span_s)
    )
    wait_s = max(0.0, min(span_s, total_s - aggregate_s - eval_s))
    return WallSplit(aggregate_s, eval_s, wait_s, total_s - aggregate_s - eval_s - wait_s, total_s)


def _times(table: Table) -> Ints:
    """Engine time of each event in nanoseconds, never decreasing; one without a time is as late as the one before."""
    return np.maximum.accumulate(_ints(table, "t_ns", 0))


def _ints(table: Table, path: str, missing: int = -1) -> Ints:
    """A column of integers; all ``missing`` where no event carries it."""
    if path not in table:
        return np.full(len(table), missing, dtype=np.int64)
    values = table.ints(path)
    return np.where(values == MISSING_INT, missing, values)


def _numbers(table: Table, path: str) -> Floats:
    """A column of floats; all nan where no event carries it."""
    return table.numbers(path) if path in table else np.full(len(table), np.nan)


def _labels(table: Table, path: str) -> Labels:
    return table.labels(path) if path in table else Labels(np.full(len(table), -1, dtype=np.int64), ())


def _lists(table: Table, path: str) -> Ragged:
    return table.lists(path) if path in table else Ragged(np.empty(0), np.zeros(len(table) + 1, dtype=np.int64))
