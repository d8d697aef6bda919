"""Where a run is: bins, rounds, iterations, versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


class Triple(NamedTuple):
    """What a contribution is for; a client contributes at most once to each."""

    version: int
    bin: int
    iteration: int


@dataclass(frozen=True, slots=True)
class Cadence:
    """Position of the run.

    Args:
        bins_per_round: Bins of one pass over the data.
        num_commits: Bins committed so far, which is also the model version.
        iteration: Iteration within the current bin.
        num_cycles: Select-to-commit (or retry) cycles so far.
    """

    bins_per_round: int
    num_commits: int = 0
    iteration: int = 0
    num_cycles: int = 0

    @property
    def version(self) -> int:
        """Model version: commits applied."""
        return self.num_commits

    @property
    def bin(self) -> int:
        """Mini-batch index of the cadence; repeats every round."""
        return self.num_commits % self.bins_per_round

    @property
    def round(self) -> int:
        """Completed passes over all bins."""
        return self.num_commits // self.bins_per_round

    @property
    def triple(self) -> Triple:
        """What contributions of this moment are for."""
        return Triple(self.version, self.bin, self.iteration)

    def after_retry(self) -> Cadence:
        """The gate failed: same bin, next iteration."""
        return replace(self, iteration=self.iteration + 1, num_cycles=self.num_cycles + 1)

    def after_commit(self) -> Cadence:
        """The gate passed: next bin, next version."""
        return replace(self, iteration=0, num_commits=self.num_commits + 1, num_cycles=self.num_cycles + 1)
