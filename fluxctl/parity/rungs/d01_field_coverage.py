"""Whether the events carry what the other rungs read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier


@dataclass(frozen=True, slots=True)
class Need:
    """A field that rungs rest on; any of its names will do."""

    event: str
    names: tuple[str, ...]
    only_real: bool = False

    def is_met(self, run: Observed) -> bool:
        """Whether at least one event carries it, or the run's clock does not need it."""
        if self.only_real and not run.is_real:
            return True
        return any(run[self.event].density(name) > 0 for name in self.names)

    def __str__(self) -> str:
        return f"{self.event}.{' or '.join(self.names)}"


REQUIRED: Final = (
    Need("agg_round", ("engine_s",)),
    Need("agg_round", ("version",)),
    Need("agg_round", ("trainer_speed_s",)),
    Need("agg_round", ("staleness",)),
    Need("agg_round", ("contributing_trainers",)),
    Need("agg_round", ("contributor_intervals[].dispatch",)),
    Need("agg_round", ("wall.intrinsic_span_s",), only_real=True),
    Need("trainer_round", ("wall.train_s", "wall.compute_s")),
    Need("trainer_round", ("training_budget_s", "modelled_d_s")),
    Need("task_recv", ("dispatch_ns",)),
    Need("selection", ("chosen",)),
    Need("selection", ("num_eligible",)),
)


@rung(
    "D1",
    "TC1",
    "field_coverage",
    stage="0",
    tier=Tier.INV,
    role=Role.MECHANISM,
    question="Did both runs record the measurements that the comparison needs?",
    broken="At least one run lacks a measurement, so checks that read it prove nothing about the simulation.",
)
def field_coverage(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Every required field occurs in each run whose clock needs it."""
    missing = [f"{run.label}: {need}" for run in (left, right) for need in REQUIRED if not need.is_met(run)]
    return Finding(
        Status.FAIL if missing else Status.PASS,
        float(len(missing)),
        "= 0 missing",
        len(REQUIRED),
        f"no event carries {'; '.join(missing)}" if missing else f"all {len(REQUIRED)} fields occur in both runs",
        {"missing": missing},
    )
