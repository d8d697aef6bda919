"""What ``parity`` shows: one screen that says whether the simulation can be trusted, and if not, what broke it.

Rungs that pass are counted by stage; the others are told one by one, root causes first in plain words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from fluxctl.commands._render import Column, number, print_grid
from fluxctl.commands._talk import plain_text
from fluxctl.parity.comparison import Comparison, title_of
from fluxctl.parity.ladder import PairVerdict
from fluxctl.parity.registry import STAGE_TITLES
from fluxctl.parity.result import Cause, Rung, RungResult, Status

_STYLES: Final = {"PASS": "green", "FAIL": "bold red", "WARN": "yellow", "INCONCLUSIVE": "yellow", "LOW_CONF": "yellow"}
_TOLD: Final = (Status.FAIL, Status.WARN, Status.INCONCLUSIVE)  # without --show-all


def print_comparisons(console: Console, comparisons: Sequence[Comparison], *, shows_all: bool) -> None:
    """Print every pair, and a summary if there are several."""
    for comparison in comparisons:
        _print_banner(console, comparison)
        if shows_all or len(comparisons) == 1 or comparison.verdict is not PairVerdict.PASS:
            _print_stages(console, comparison)
        _print_told(console, comparison, shows_all=shows_all)
    _print_scoreboard(console, comparisons)


def print_rungs(console: Console, rungs: Sequence[Rung]) -> None:
    """Print what there is to climb."""
    columns = [
        Column("id", [rung.id for rung in rungs]),
        Column("rung", [title_of(rung) for rung in rungs]),
        Column("stage", [f"{rung.stage} {STAGE_TITLES[rung.stage]}" for rung in rungs]),
        Column("tier", [rung.tier.value + (" gated" if rung.is_gated else "") for rung in rungs]),
        Column("role", [rung.role.value for rung in rungs]),
        Column("needs", [" ".join(rung.needs) for rung in rungs]),
    ]
    print_grid(console, columns)
    for rung in rungs:
        _wrapped(console, f"{rung.id:<5} {rung.question}", indent=6)


def cell(value: float | None) -> str:
    """A measured number in a table."""
    return number(value, ".4g")


def _print_banner(console: Console, comparison: Comparison) -> None:
    pair, verdict = comparison.pair, comparison.verdict.value
    _wrapped(console, f"{verdict}  {pair.baseline}: {comparison.headline()}", style=_STYLES[verdict], indent=2)
    for cause in comparison.causes():
        _wrapped(console, f"  root cause: {cause}", style=_STYLES["FAIL"], indent=4)
    for name, side in zip(pair.labels, (pair.left, pair.right), strict=True):
        console.print(plain_text(f"  {name}: {side.id}"), soft_wrap=True)
    determinism = comparison.ladder.determinism
    gates = f"gated rungs are {'' if determinism.is_enforced else 'not '}enforced: {determinism.reason}"
    for fact in (*(arrivals.sentence() for arrivals in comparison.ladder.arrivals), gates, *comparison.notes):
        _wrapped(console, f"  {fact}", indent=4)
    console.print()


def _print_stages(console: Console, comparison: Comparison) -> None:
    results = comparison.ladder.results
    stages = [stage for stage in STAGE_TITLES if any(result.rung.stage == stage for result in results)]
    columns = [Column("stage", [f"{stage} {STAGE_TITLES[stage]}" for stage in stages])]
    for status in Status:
        counts = [_count(results, status, stage) for stage in stages]
        if any(counts):
            columns.append(Column(status.value, [str(num) if num else "" for num in counts], True))
    print_grid(console, columns)


def _count(results: Sequence[RungResult], status: Status, stage: str) -> int:
    return sum(result.finding.status is status and result.rung.stage == stage for result in results)


def _print_told(console: Console, comparison: Comparison, *, shows_all: bool) -> None:
    """The rungs that are told one by one: as a table of numbers, and then in words."""
    told = [result for result in comparison.ladder.results if shows_all or result.finding.status in _TOLD]
    if not told:
        return
    noise = comparison.ladder.options.noise
    columns = [
        Column("rung", [title_of(result.rung) for result in told]),
        Column("stage", [result.rung.stage for result in told]),
        Column("status", [result.finding.status.value for result in told]),
        Column("cause", [_cause(result) for result in told]),
        Column("value", [cell(result.finding.value) for result in told], True),
        Column("threshold", [result.finding.threshold for result in told]),
        Column("noise", [cell(noise.get(result.rung.id)) for result in told], True),
        Column("n", [number(result.finding.n) for result in told], True),
    ]
    print_grid(console, columns)
    for result in told:
        _wrapped(console, f"  {title_of(result.rung)}: {result.finding.message}", indent=4)
    console.print()


def _cause(result: RungResult) -> str:
    if result.cause is None:
        return ""
    return "ROOT-CAUSE" if result.cause is Cause.ROOT else "DOWNSTREAM"


def _print_scoreboard(console: Console, comparisons: Sequence[Comparison]) -> None:
    columns = [
        Column("baseline", [comparison.pair.baseline for comparison in comparisons]),
        Column("verdict", [comparison.verdict.value for comparison in comparisons]),
        Column("bins", [number(comparison.ladder.num_units) for comparison in comparisons], True),
    ]
    columns += [
        Column(status.value, [str(comparison.ladder.counts[status]) for comparison in comparisons], True)
        for status in Status
        if status in (Status.PASS, Status.FAIL) or any(of.ladder.counts[status] for of in comparisons)
    ]
    columns.append(Column("root cause", [_roots(comparison) for comparison in comparisons]))
    print_grid(console, columns, num_keys=2)


def _roots(comparison: Comparison) -> str:
    broken = [check.name for admission in comparison.admissions for check in admission.broken]
    return ", ".join([*broken, *(root.rung.short for root in comparison.ladder.roots)])


def _wrapped(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    """Wrap at the screen's width where there is one; a reader of a pipe gets whole lines."""
    if not console.is_terminal:
        console.print(plain_text(text, style), soft_wrap=True)
        return
    lead = text[: len(text) - len(text.lstrip())]
    lines = textwrap.wrap(
        text.strip(), console.width, initial_indent=lead, subsequent_indent=" " * indent, break_on_hyphens=False
    )
    console.print(plain_text("\n".join(lines), style))
