"""Whether two runs can be expected to decide the same, so that gated rungs are enforced (D0f).

Every draw of this engine is keyed, so equal inputs give equal decisions. Inputs are equal where nothing was left to
choose, or where both runs saw the same eligible clients at every selection; and both clocks must order commits by due
times that the wall cannot move. This module must not judge rungs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fluxctl.config.model import Config
from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Options
from fluxctl.telemetry.columns import AbsentField, Labels, Table


@dataclass(frozen=True, slots=True)
class Determinism:
    """Whether gated rungs are enforced, and why.

    Attributes:
        is_enforced: Whether both runs are deterministic.
        reason: One clause for a person.
    """

    is_enforced: bool
    reason: str


def judge_determinism(left: Observed, right: Observed, options: Options) -> Determinism:
    """Decide whether gated rungs are enforced on a pair.

    Args:
        left: One run.
        right: The other.
        options: ``max_bin`` limits the selections that are looked at.
    """
    for run in (left, right):
        reason = None if run.config is None else _wall_dependence(run.config)
        if reason is not None:
            return Determinism(False, f"{run.label}: {reason}")
    try:
        return _judge_selections(left, right, options)
    except AbsentField as absent:
        return Determinism(False, f"no event carries {absent.path}")


def _wall_dependence(config: Config) -> str | None:
    engine = config.engine
    if engine.commit_order != "logical":
        return f"commits follow the {engine.commit_order} order"
    if engine.charge_compute != "modelled":
        return f"compute is charged as {engine.charge_compute}"
    if engine.charge_evaluation == "measured":
        return f"evaluations are charged as {engine.charge_evaluation}"
    return None


def _judge_selections(left: Observed, right: Observed, options: Options) -> Determinism:
    tables = [run["selection"] for run in (left, right)]
    num = min(_num_selections(run, left.num_compared(right, options.max_bin)) for run in (left, right))
    if num == 0:
        return Determinism(False, "there are no selections to compare")
    if all(_takes_everyone(table, num) for table in tables):
        return Determinism(True, "every candidate is chosen in both runs")
    words = [_words(table.labels("eligible_fingerprint"), num) for table in tables]
    differ = np.flatnonzero(words[0] != words[1])
    if len(differ):
        return Determinism(False, f"the eligible clients differ from selection {int(differ[0]) + 1} of {num} on")
    return Determinism(True, f"selectors are keyed and all {num} selections saw the same eligible clients")


def _num_selections(run: Observed, num_units: int) -> int:
    """Selections up to the last unit that is compared; those at its very end already serve the next one."""
    if num_units == 0:
        return 0
    end_ns = run.cycles.ints("t_ns")[run.is_commit][num_units - 1]
    return int(np.count_nonzero(run["selection"].ints("t_ns") < end_ns))


def _takes_everyone(table: Table, num: int) -> bool:
    return bool(np.array_equal(table.ints("num_chosen")[:num], table.ints("num_candidates")[:num]))


def _words(labels: Labels, num: int) -> np.typing.NDArray[np.str_]:
    return np.array([*labels.names, ""], dtype=np.str_)[labels.codes[:num]]
