"""Cycles of two runs side by side: who contributed, in which order, under which cadence, with which variance.

Cycles are paired by what they are (the n-th cycle of the m-th committed bin), never by their position in the file, so
a bin that took one more iteration on one side does not shift everything after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.parity.observed import Observed
from fluxctl.parity.window import Window
from fluxctl.telemetry.columns import MISSING_INT, Floats, Ints
from fluxctl.types import JSON, CommitReason

VAR_REL_TOLERANCE: Final = 1e-3
_CADENCE: Final = ("cycle_bin", "cycle_iteration", "goal_count", "var_good")


@dataclass(frozen=True)
class Pairing:
    """Cycles that both runs have.

    Attributes:
        first: Rows of the first run's cycles, shape ``(num_paired,)``.
        second: Rows of the second run's cycles that correspond to them.
        num_all: Cycles that at least one of the runs has.
    """

    first: Ints
    second: Ints
    num_all: int


def places(window: Window) -> Ints:
    """Where each cycle of a window stands: its bin by commit count and its number within it, shape ``(n, 2)``."""
    units = window.run.unit_of_cycle[window.in_cycle]
    starts = np.searchsorted(units, units, side="left")
    return np.stack([units, np.arange(len(units)) - starts], axis=1)


def chosen_by_cycle(window: Window) -> dict[tuple[int, int], frozenset[int]]:
    """Clients that were chosen in the course of each cycle of a window, by the cycle's place."""
    selections = window.run["selection"]
    rows = np.flatnonzero(window.selections())
    # What is chosen in the instant in which a cycle ends is chosen for the next one.
    ends_ns = window.run.cycles.ints("t_ns")[window.in_cycle]
    cycles = np.searchsorted(ends_ns, selections.ints("t_ns")[rows], side="right")
    chosen, at = selections.lists("chosen"), places(window).tolist()
    found: dict[tuple[int, int], set[int]] = {(unit, number): set() for unit, number in at}
    for row, cycle in zip(rows.tolist(), cycles.tolist(), strict=True):
        unit, number = at[cycle]
        found[unit, number].update(chosen[row].tolist())
    return {place: frozenset(clients) for place, clients in found.items()}


def pair_cycles(first: Window, second: Window) -> Pairing:
    """Match the cycles of two windows by their places."""
    places_1, places_2 = (map(tuple, places(window).tolist()) for window in (first, second))
    index_2 = {place: row for row, place in enumerate(places_2)}
    rows = [(row, index_2[place]) for row, place in enumerate(places_1) if place in index_2]
    pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
    num_all = int(first.in_cycle.sum()) + int(second.in_cycle.sum()) - len(pairs)
    return Pairing(pairs[:, 0], pairs[:, 1], num_all)


@dataclass(frozen=True)
class CycleMatch:
    """What paired cycles have in common, each of shape ``(num_paired,)``.

    Attributes:
        pairing: The cycles.
        same_set: The same clients contributed.
        same_order: And in the same order.
        same_cadence: Bin, iteration, number of contributions, gate and reason of the commit agree.
        same_variance: The gate's statistic agrees within :data:`VAR_REL_TOLERANCE`.
    """

    pairing: Pairing
    same_set: NDArray[np.bool_]
    same_order: NDArray[np.bool_]
    same_cadence: NDArray[np.bool_]
    same_variance: NDArray[np.bool_]

    @property
    def aspects(self) -> dict[str, NDArray[np.bool_]]:
        """What is compared, by name."""
        return {
            "set": self.same_set,
            "order": self.same_order,
            "cadence": self.same_cadence,
            "variance": self.same_variance,
        }

    @property
    def same(self) -> NDArray[np.bool_]:
        """Cycles that agree in everything."""
        return self.same_set & self.same_order & self.same_cadence & self.same_variance

    def share(self, matches: NDArray[np.bool_]) -> float:
        """Share of all cycles that match; one without a counterpart does not."""
        return float(matches.sum()) / self.pairing.num_all if self.pairing.num_all else 1.0

    @property
    def first_difference(self) -> int | None:
        """Position in the pairing of the first cycles that differ; None if there is none."""
        differing = np.flatnonzero(~self.same)
        return int(differing[0]) if len(differing) else None

    def names_of(self, index: int) -> list[str]:
        """What differs in the cycles at a position of the pairing."""
        return [name for name, matches in self.aspects.items() if not matches[index]]


def match_cycles(first: Window, second: Window) -> CycleMatch:
    """Compare the cycles of two windows one by one.

    Raises:
        AbsentField: If a run lacks contributors or cadence.
    """
    pairing = pair_cycles(first, second)
    same_set, same_order = same_contributors(first.run, second.run, pairing)
    return CycleMatch(
        pairing,
        same_set,
        same_order,
        _same_cadence(first.run, second.run, pairing),
        close(
            variances(first.run)[pairing.first],
            variances(second.run)[pairing.second],
            VAR_REL_TOLERANCE,
        ),
    )


def variances(run: Observed) -> Floats:
    """The gate's statistic after each cycle, shape ``(num_cycles,)``; nan where it is undefined, as of one update."""
    return run.cycles.numbers("var") if "var" in run.cycles else np.full(len(run.cycles), np.nan)


def close(first: Floats, second: Floats, tolerance: float) -> NDArray[np.bool_]:
    """Whether numbers agree within a relative tolerance; two missing ones do, one missing one does not."""
    scale = np.maximum(np.abs(first), np.abs(second))
    near = np.abs(first - second) <= tolerance * scale
    return np.asarray(near | (np.isnan(first) & np.isnan(second)))


def same_contributors(
    first: Observed, second: Observed, pairing: Pairing
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether paired cycles have the same contributors, as a set and in order, each of shape ``(num_paired,)``."""
    lists_1, lists_2 = (run.cycles.lists("contributing_trainers") for run in (first, second))
    same_set = np.zeros(len(pairing.first), dtype=bool)
    same_order = np.zeros(len(pairing.first), dtype=bool)
    for index, (row_1, row_2) in enumerate(zip(pairing.first.tolist(), pairing.second.tolist(), strict=True)):
        clients_1, clients_2 = lists_1[row_1], lists_2[row_2]
        same_order[index] = np.array_equal(clients_1, clients_2)
        same_set[index] = same_order[index] or np.array_equal(np.sort(clients_1), np.sort(clients_2))
    return same_set, same_order


def _same_cadence(first: Observed, second: Observed, pairing: Pairing) -> NDArray[np.bool_]:
    same = np.ones(len(pairing.first), dtype=bool)
    for path in _CADENCE:
        same &= first.cycles.ints(path)[pairing.first] == second.cycles.ints(path)[pairing.second]
    reasons_1, reasons_2 = (_reasons(run) for run in (first, second))
    return np.asarray(same & (reasons_1[pairing.first] == reasons_2[pairing.second]))


def _reasons(run: Observed) -> NDArray[np.str_]:
    """Why each cycle committed, as words; empty where it did not."""
    labels = run.cycles.labels("commit_reason")
    return np.array([*labels.names, ""])[labels.codes]  # code -1 is the last word


def is_forced(run: Observed) -> NDArray[np.bool_]:
    """Cycles that committed for another reason than the gate, shape ``(num_cycles,)``."""
    labels = run.cycles.labels("commit_reason")
    return np.asarray((labels.codes >= 0) & ~labels.equals(CommitReason.NATURAL.value))


def describe_cycle(run: Observed, row: int) -> Mapping[str, JSON]:
    """One cycle in the words of its event, for messages and ``--json``."""
    cycles = run.cycles
    variance = float(variances(run)[row])
    facts: dict[str, JSON] = {"cycle": row, "clients": cycles.lists("contributing_trainers")[row].tolist()}
    for path, name in (("cycle_bin", "bin"), ("cycle_iteration", "iteration")):
        if path in cycles and cycles.ints(path)[row] != MISSING_INT:
            facts[name] = int(cycles.ints(path)[row])
    facts["reason"] = str(_reasons(run)[row]) or None if "commit_reason" in cycles else None
    facts["variance"] = variance if np.isfinite(variance) else None
    facts["checksum"] = checksum_of(run, row)
    return facts


def checksum_of(run: Observed, row: int) -> str | None:
    """Hash of the trainable weights after a cycle; None if it was not recorded."""
    if "model_checksum" not in run.cycles:
        return None
    labels = run.cycles.labels("model_checksum")
    code = int(labels.codes[row])
    return labels.names[code] if code >= 0 else None


def in_words(facts: Mapping[str, JSON]) -> str:
    """A cycle on one line: its first clients, its reason and its variance."""
    clients = facts["clients"]
    assert isinstance(clients, list)
    shown = " ".join(map(str, clients[:8])) + (" ..." if len(clients) > 8 else "")
    variance = facts["variance"]
    number = f"{variance:.6g}" if isinstance(variance, float) else "none"
    return f"clients {shown}, variance {number}, {facts['reason'] or 'no commit'}"
