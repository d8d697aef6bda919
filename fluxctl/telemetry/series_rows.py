"""What a reduced run is made of: rows in the order of commits or arrivals. Plain values that know no files.

Numbers are as recorded: nothing is smoothed, cut or filled in. What an event lacks is nan or -1 in its array.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fluxctl.telemetry.tables import Floats, Ints, Labels, Ragged

Bools: TypeAlias = "NDArray[np.bool_]"


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
        wait_s: Wall seconds of waiting for updates: from the cycle's first dispatch, or the arrival that closed the
            cycle before if that was later, to the arrival that closed it.
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
    wait_s: Floats

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
