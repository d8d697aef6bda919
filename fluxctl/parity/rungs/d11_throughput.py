"""How many bins a second of the run's clock brings."""

from __future__ import annotations

from typing import Final

from fluxctl.parity.bounds import Bound, Evidence, judged_bounds
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.stats import relative
from fluxctl.parity.window import Window, too_short, windows

MOST: Final = 0.05


@rung(
    "D11",
    "K2",
    "throughput",
    stage="1",
    tier=Tier.EXACT,
    role=Role.MECHANISM,
    question="Do both runs commit as many bins per second of their clocks?",
    broken="The simulation is too optimistic, or too pessimistic, about how long training takes.",
    needs=("D10",),
    is_timed=True,
    is_clock_rung=True,
)
def throughput(left: Observed, right: Observed, options: Options) -> Finding:
    """Relative difference of committed bins per second; without a clock there is nothing to trust, so it fails."""
    real, sim = windows(left, right, options)
    blind = [window.run.label for window in (real, sim) if not _has_clock(window)]
    if blind:
        return Finding(Status.FAIL, None, f"<= {MOST:g}", None, f"no clock was recorded: {', '.join(blind)}")
    if real.num_units < 2:
        return too_short(real.num_units)
    rates = [_rate(window) for window in (real, sim)]
    gap = relative(rates[1], rates[0])
    factor, num = real.run.wall_factor, real.num_units
    wall_rate = num / (float(real.run.wall_s[num - 1]) * factor) if real.run.is_real else None
    evidence = Evidence(
        num,
        num,
        f"{rates[0]:.4g} bins per second ({real.run.label}) and {rates[1]:.4g} ({sim.run.label})",
        {"rates": rates, "rate_by_wall": wall_rate},
    )
    return judged_bounds([Bound("", gap, MOST)], evidence, min_samples=2)


def _has_clock(window: Window) -> bool:
    field = "wall.intrinsic_span_s" if window.run.is_real else "engine_s"
    return field in window.run.cycles


def _rate(window: Window) -> float:
    span_s = float(window.run.intrinsic_s[window.num_units - 1])
    return window.num_units / span_s if span_s > 0 else float("inf")
