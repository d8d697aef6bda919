"""All phases of a client's step side by side."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.rungs.d40_phases import NEGLIGIBLE_S, PHASES
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import AbsentField

MOST: Final = 0.25  # relative difference of the whole step that is worth a look, as for the single phases


@rung(
    "D46",
    "trainer_phase",
    "trainer_phase",
    stage="4",
    tier=Tier.DIAG,
    role=Role.DIAGNOSTIC,
    question="What does a whole step cost in each run, phase by phase?",
    broken="A step as a whole costs more processor time in one run; the table of phases shows where.",
    is_timed=True,
)
def trainer_phase(left: Observed, right: Observed, options: Options) -> Finding:
    """Mean processor time by phase, and the relative difference of their sums."""
    pair = windows(left, right, options)
    tables = [_means_s(window) for window in pair]
    if not tables[0] or not tables[1]:
        return skip("no update within the compared bins")
    sums = [sum(table.values()) for table in tables]
    gap = relative(sums[0], sums[1])
    is_alike = gap <= MOST or max(sums) <= NEGLIGIBLE_S
    shown = ", ".join(f"{name} {1000 * tables[0][name]:.3g}/{1000 * tables[1][name]:.3g}" for name in tables[0])
    return Finding(
        Status.PASS if is_alike else Status.WARN,
        gap,
        f"<= {MOST:g}, or both <= {1000 * NEGLIGIBLE_S:g} ms",
        min(int(window.rows("trainer_round").sum()) for window in pair),
        f"milliseconds of processor time: {shown}",
        {"mean_s": [tables[0], tables[1]]},
    )


def _means_s(window: Window) -> dict[str, float]:
    """Mean seconds by phase; a phase that is not recorded counts as nothing.

    Raises:
        AbsentField: If no phase is recorded.
    """
    means: dict[str, float] = {}
    absent = 0
    for phase in PHASES:
        try:
            values = window.numbers("trainer_round", phase.field)
        except AbsentField:
            absent += 1
            values = None
        means[phase.name] = 0.0 if values is None or not len(values) else float(values.mean())
    if absent == len(PHASES):
        raise AbsentField("trainer_round.wall phases")
    return means
