"""What the variance gate would have done with other settings, on the variances that a run recorded.

The gate is a pure function of a bin's history, so other caps, plateau settings and thresholds can be replayed exactly
for as long as the history lasts. What a replay cannot know: a bin that it leaves open where the run committed
(``num_open``) would have gone on to variances that nobody measured, and a bin that it commits earlier would have
changed the model, hence everything after it. So it tells how long each recorded bin would have taken, not how good
the model would have become.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from fluxctl.analyses.bins import BinHistory
from fluxctl.config.model import GateConfig
from fluxctl.policies.commits.variance import commit_reason
from fluxctl.types import JSON, CommitReason


@dataclass(frozen=True)
class Replay:
    """One setting on all recorded bins.

    Attributes:
        gate: The setting.
        num_bins: Bins that were replayed.
        reasons: Commits by reason.
        num_open: Bins that would have gone on beyond what was recorded.
        num_cycles: Cycles up to each commit, and all recorded ones of open bins: exact without open bins, else the
            least that it could be.
        mean_variance: Mean variance at the commits; None without any.
        num_agreeing: Bins that end at the recorded iteration for the recorded reason.
    """

    gate: GateConfig
    num_bins: int
    reasons: Counter[CommitReason]
    num_open: int
    num_cycles: int
    mean_variance: float | None
    num_agreeing: int

    @property
    def label(self) -> str:
        """The setting in a few words."""
        gate = self.gate
        cap = "no cap" if gate.max_iterations_per_bin is None else f"cap {gate.max_iterations_per_bin}"
        if gate.stopping_policy == "plateau":
            return f"plateau N {gate.plateau_window} eps {gate.plateau_min_drop:g}, {cap}"
        return cap if gate.stopping_policy == "fixed_cap" else "natural only"

    def to_json(self) -> dict[str, JSON]:
        """The outcome as JSON."""
        gate = self.gate
        return {
            "label": self.label,
            "stopping_policy": gate.stopping_policy,
            "var_threshold": gate.var_threshold,
            "max_iterations_per_bin": gate.max_iterations_per_bin,
            "plateau_window": gate.plateau_window,
            "plateau_min_drop": gate.plateau_min_drop,
            "num_bins": self.num_bins,
            **{reason.value: self.reasons[reason] for reason in CommitReason},
            "num_open": self.num_open,
            "num_cycles": self.num_cycles,
            "mean_variance": self.mean_variance,
        }


def replay(gate: GateConfig, histories: Iterable[BinHistory]) -> Replay:
    """Let the gate decide again about every recorded bin."""
    reasons: Counter[CommitReason] = Counter()
    num_bins = num_open = num_cycles = num_agreeing = 0
    at_commit: list[float] = []
    for history in histories:
        num_bins += 1
        length, reason = _first_commit(gate, history.variances)
        num_cycles += length
        num_agreeing += (length, reason) == (history.num_iterations, history.reason)
        if reason is None:
            num_open += 1
            continue
        reasons[reason] += 1
        variance = history.variances[length - 1]
        if variance is not None:
            at_commit.append(variance)
    mean = fmean(at_commit) if at_commit else None
    return Replay(gate, num_bins, reasons, num_open, num_cycles, mean, num_agreeing)


def _first_commit(gate: GateConfig, variances: Sequence[float | None]) -> tuple[int, CommitReason | None]:
    """Iterations until the gate commits, and why; all of them and None if it never does."""
    for iteration in range(len(variances)):
        reason = commit_reason(gate, variances[: iteration + 1], iteration)
        if reason is not None:
            return iteration + 1, reason
    return len(variances), None


def sweep(gate: GateConfig) -> list[GateConfig]:
    """Settings around the run's own: caps alone, and plateau windows and drops under its cap."""

    def variant(policy: str, cap: int | None, window: int | None = None, drop: float | None = None) -> GateConfig:
        return GateConfig.model_validate(
            {
                **gate.model_dump(),
                "enabled": True,
                "stopping_policy": policy,
                "max_iterations_per_bin": cap,
                "plateau_window": window or gate.plateau_window,
                "plateau_min_drop": drop or gate.plateau_min_drop,
            }
        )

    cap = gate.max_iterations_per_bin
    settings = [variant("off", None), *(variant("fixed_cap", most) for most in (3, 5, 10, 20, 40))]
    settings += [variant("plateau", cap, window, drop) for window in (2, 3, 5) for drop in (0.05, 0.15, 0.3)]
    return settings
