"""The part of two runs that can be compared, and the numbers that several rungs take from it.

Both runs are cut after the last bin that both have committed, so a bin that the end of one of them cut off never counts
(D0e). Rows are picked by the run's own engine time of that commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Finding, Options, Status
from fluxctl.telemetry.columns import MISSING_INT, AbsentField, Floats, Ints, Ragged, Table
from fluxctl.types import NS_PER_S, Mode, Ns


@dataclass(frozen=True)
class Window:
    """One run, up to the last unit of progress that both runs of a pair have completed.

    Attributes:
        run: The run.
        num_units: Units of progress within the window: committed bins, or rounds without cadence fields.
    """

    run: Observed
    num_units: int

    @cached_property
    def end_ns(self) -> Ns:
        """Engine time of the last commit within the window; 0 if there is none."""
        if self.num_units == 0:
            return 0
        commits = self.run.cycles.ints("t_ns")[self.run.is_commit]
        return int(commits[self.num_units - 1])

    @cached_property
    def in_cycle(self) -> NDArray[np.bool_]:
        """Cycles of the window, shape ``(num_cycles,)``."""
        return np.asarray(self.run.unit_of_cycle < self.num_units)

    def rows(self, event: str) -> NDArray[np.bool_]:
        """Events of a kind that happened up to the end of the window.

        Raises:
            AbsentField: If there is no such event at all.
        """
        return np.asarray(self.run[event].ints("t_ns") <= self.end_ns)

    def numbers(self, event: str, path: str) -> Floats:
        """A field's numbers within the window, without missing ones.

        Raises:
            AbsentField: If no event carries it.
        """
        values = self.run[event].numbers(path)[self._mask(event)]
        return values[np.isfinite(values)]

    def pooled(self, event: str, path: str) -> Floats:
        """The numbers of a list field of all events within the window, in order.

        Raises:
            AbsentField: If no event carries it.
        """
        lists = self.run[event].lists(path)
        values = np.asarray(lists.values, dtype=np.float64)[np.repeat(self._mask(event), lists.lengths)]
        return values[np.isfinite(values)]

    def selections(self) -> NDArray[np.bool_]:
        """Selections of the window: one at the instant of the last commit belongs to the next unit.

        Raises:
            AbsentField: If there is no selection at all.
        """
        return np.asarray(self.run["selection"].ints("t_ns") < self.end_ns)

    def _mask(self, event: str) -> NDArray[np.bool_]:
        if event == "agg_round":
            return self.in_cycle
        return self.selections() if event == "selection" else self.rows(event)

    @cached_property
    def advances_s(self) -> Floats:
        """Seconds that each unit took on the run's own clock (D0g), shape ``(num_units,)``."""
        return np.diff(self.run.intrinsic_s[: self.num_units], prepend=0.0)

    @cached_property
    def modelled_s(self) -> Floats:
        """Seconds that the slowest clients of each unit's cycles were modelled to take, shape ``(num_units,)``.

        Raises:
            AbsentField: If no cycle carries ``trainer_speed_s``.
        """
        slowest = row_maxima(self.run.cycles.lists("trainer_speed_s"))
        units = self.run.unit_of_cycle[self.in_cycle]
        sums = np.bincount(units, weights=np.nan_to_num(slowest[self.in_cycle]), minlength=self.num_units)
        return np.asarray(sums, dtype=np.float64)


def windows(left: Observed, right: Observed, options: Options) -> tuple[Window, Window]:
    """The comparable part of two runs; the wall-clock run first where just one of them is."""
    num = left.num_compared(right, options.max_bin)
    first, second = (right, left) if right.is_real and not left.is_real else (left, right)
    return Window(first, num), Window(second, num)


def runs_of_mode(mode: Mode, left: Observed, right: Observed) -> Iterator[Observed]:
    """Those of two runs that were on a clock."""
    return (run for run in (left, right) if run.mode is mode)


def row_maxima(lists: Ragged) -> Floats:
    """The greatest number of each row, shape ``(num_rows,)``; nan where a row is empty."""
    maxima = np.full(len(lists), np.nan)
    filled = lists.lengths > 0
    if filled.any():
        maxima[filled] = np.maximum.reduceat(np.asarray(lists.values, np.float64), lists.offsets[:-1][filled])
    return maxima


def require_rows(table: Table) -> None:
    """Check that a kind of event occurs at all.

    Raises:
        AbsentField: If it does not.
    """
    if not len(table):
        raise AbsentField(table.event)


def per_client_share(clients: Ints, is_hit: NDArray[np.bool_]) -> Floats:
    """For each client that occurs: the share of its rows that are hits."""
    known = clients != MISSING_INT
    ids, index = np.unique(clients[known], return_inverse=True)
    hits, rows = np.bincount(index, weights=is_hit[known], minlength=len(ids)), np.bincount(index, minlength=len(ids))
    return np.asarray(hits / rows, dtype=np.float64)


def engine_steps_s(window: Window) -> Floats:
    """Engine seconds from each cycle of the window to the next, shape ``(num_cycles - 1,)``, or empty."""
    return np.diff(window.run.cycles.ints("t_ns")[window.in_cycle]) / NS_PER_S


def skip(reason: str) -> Finding:
    """A rung that has no meaning for this pair, and why."""
    return Finding(Status.SKIP, None, "", None, reason)


def too_short(num_units: int) -> Finding:
    """A rung that needs two units of progress."""
    return skip(f"the runs have {num_units} completed bins in common; this needs 2")
