"""Whether runs were ended by their time budget and not by a cap on bins or rounds long before."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.types import NS_PER_S

LEAST: Final = 0.95


@rung(
    "D74",
    "K9",
    "budget_not_cap",
    stage="9",
    tier=Tier.INV,
    role=Role.CONTROL,
    question="Did the runs use their time budget, instead of being ended early by a cap on bins or rounds?",
    broken="A cap ended a run early: what would have come in the rest of the budget was not compared.",
    is_timed=True,
)
def budget_not_cap(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Share of the budget that the run used that a cap ended first; only warns."""
    runs = [run for run in (left, right) if run.config is not None and _cap(run) is not None]
    if not runs:
        return skip("no cap on bins or rounds is given")
    used = {run.label: _used(run) for run in runs}
    capped = {run.label: used[run.label] for run in runs if _is_capped(run)}
    least = min(capped.values(), default=min(used.values()))
    is_early = bool(capped) and least < LEAST
    told = f"a cap ended the {' and the '.join(capped)} run" if capped else "no cap ended a run"
    return Finding(
        Status.WARN if is_early else Status.PASS,
        least,
        f">= {LEAST:g} if capped",
        len(runs),
        f"{told}; {least:.1%} of the time budget was used",
        {"used": used, "capped": list(capped)},
    )


def _cap(run: Observed) -> int | None:
    assert run.config is not None
    limits = run.config.limits
    return limits.max_bins if limits.max_bins is not None else limits.max_rounds


def _is_capped(run: Observed) -> bool:
    """Whether a run has as many bins or rounds as it may have."""
    assert run.config is not None
    limits, cycles = run.config.limits, run.cycles
    if limits.max_bins is not None and run.num_units >= limits.max_bins:
        return True
    return limits.max_rounds is not None and len(cycles) > 0 and int(cycles.ints("round")[-1]) + 1 >= limits.max_rounds


def _used(run: Observed) -> float:
    assert run.config is not None
    return run.columns.last_ns / NS_PER_S / run.config.runtime_budget_s()
