"""From tables of events to the rows of a run.

How far the run was at a row is a running total by engine time. Events of one instant are written in the order in which
things follow from each other: updates arrive, a cycle closes, the model is evaluated, clients are dispatched. "So far"
means what the file holds before the event, which for that order is: updates and uploads up to and including the
instant, downloads before it.
"""

from __future__ import annotations

import numpy as np

from fluxctl.telemetry.columns import Columns
from fluxctl.telemetry.series_rows import Bools, Cycles, Evaluations, Progress, Sessions, Updates
from fluxctl.telemetry.tables import MISSING_INT, Floats, Ints, Labels, Ragged, Table
from fluxctl.types import NS_PER_S


class Counters:
    """What had been done before an event, by its engine time."""

    def __init__(self, columns: Columns) -> None:
        updates, comm, cycles = columns["trainer_round"], columns["comm"], columns["agg_round"]
        way = labels(comm, "direction")
        size = ints(comm, "bytes", 0)
        self._passes = _Running(times(updates), ints(updates, "forward_passes", 0))
        self._down, self._up = (
            _Running(times(comm)[rows], size[rows]) for rows in (way.equals("down"), way.equals("up"))
        )
        self._cycle_ns = times(cycles)
        self._wall_s = np.concatenate([[0.0], numbers(cycles, "wall.wall_s")])
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
    return np.asarray(labels(cycles, "commit_reason").codes >= 0)


def evaluations_of(table: Table, counters: Counters) -> Evaluations:
    """Rows of ``agg_eval``."""
    return Evaluations(
        **vars(counters.at(times(table))),
        round=ints(table, "round"),
        accuracy=numbers(table, "test_accuracy"),
        loss=numbers(table, "test_loss"),
        mcc=numbers(table, "mcc"),
    )


def cycles_of(table: Table, counters: Counters) -> Cycles:
    """Rows of ``agg_round``."""
    return Cycles(
        **vars(counters.at_cycles()),
        round=ints(table, "round"),
        bin=ints(table, "cycle_bin"),
        iteration=ints(table, "cycle_iteration"),
        is_commit=is_commit(table),
        reason=labels(table, "commit_reason"),
        var=numbers(table, "var"),
        var_threshold=numbers(table, "var_threshold"),
        num_updates=ints(table, "goal_count"),
        in_flight=ints(table, "in_flight"),
        staleness=lists(table, "staleness"),
        gated_total=ints(table, "gated_total"),
        grad_norm=numbers(table, "grad_norm"),
        aggregate_s=numbers(table, "wall.aggregate_s"),
        eval_s=numbers(table, "wall.eval_s"),
        wait_s=_waits(table),
    )


def _waits(table: Table) -> Floats:
    """Seconds that the aggregator waited; runs recorded before that was measured tell their cycles' spans instead."""
    waited = numbers(table, "wall.wait_s")
    return np.where(np.isfinite(waited), waited, numbers(table, "wall.intrinsic_span_s"))


def updates_of(table: Table) -> Updates:
    """Rows of ``trainer_round``."""
    due_s = times(table) / NS_PER_S
    return Updates(
        client=ints(table, "client"),
        version=ints(table, "version"),
        dispatch_s=due_s - numbers(table, "wait_s"),
        due_s=due_s,
        duration_s=numbers(table, "modelled_d_s"),
        loss=numbers(table, "loss"),
        passes=ints(table, "forward_passes", 0),
        compute_wall_s=numbers(table, "wall.compute_s"),
    )


def sessions_of(table: Table) -> Sessions:
    """Rows of the ``contributor_intervals`` of ``agg_round``."""
    path = "contributor_intervals[]"
    client = lists(table, f"{path}.client")
    ids = client.values.astype(np.int64)
    return Sessions(
        client=np.where(ids == MISSING_INT, -1, ids),
        cycle=np.repeat(np.arange(len(table), dtype=np.int64), client.lengths),
        dispatch_s=lists(table, f"{path}.dispatch").values.astype(np.float64),
        commit_s=lists(table, f"{path}.commit").values.astype(np.float64),
    )


def times(table: Table) -> Ints:
    """Engine time of each event in nanoseconds, never decreasing; one without a time is as late as the one before."""
    return np.maximum.accumulate(ints(table, "t_ns", 0))


def ints(table: Table, path: str, missing: int = -1) -> Ints:
    """A column of integers; all ``missing`` where no event carries it."""
    if path not in table:
        return np.full(len(table), missing, dtype=np.int64)
    values = table.ints(path)
    return np.where(values == MISSING_INT, missing, values)


def numbers(table: Table, path: str) -> Floats:
    """A column of floats; all nan where no event carries it."""
    return table.numbers(path) if path in table else np.full(len(table), np.nan)


def labels(table: Table, path: str) -> Labels:
    """A column of words; code -1 everywhere where no event carries it."""
    return table.labels(path) if path in table else Labels(np.full(len(table), -1, dtype=np.int64), ())


def lists(table: Table, path: str) -> Ragged:
    """A column of lists; all empty where no event carries it."""
    return table.lists(path) if path in table else Ragged(np.empty(0), np.zeros(len(table) + 1, dtype=np.int64))
