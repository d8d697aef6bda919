"""What each tier of the gate shows.

Tier 1 is what to review before every run: the condition, with notes. Tier 2 is what makes each system the one it is:
baselines as rows, knobs as columns. Tier 3 is every other value. Each value of a configuration is in one of them, in
full: a test changes each and looks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fluxctl.gate.checks import Finding
from fluxctl.gate.facts import Case
from fluxctl.gate.tier_items import COLUMNS, IDENTITY, ITEMS, Column, Item, Show, values_of


class Status(StrEnum):
    """How a reviewed value stands."""

    OK = "ok"
    CHECK = "check"  # a check has something to say about it
    DEFAULT = "default"  # nobody has set it


@dataclass(frozen=True, slots=True)
class Row:
    """A line of tier 1."""

    label: str
    value: str
    note: str
    status: Status
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of tier 2."""

    text: str
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Knob:
    """A column of tier 2."""

    title: str
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        """Whether the baselines have different values."""
        return len({cell.text for cell in self.cells}) > 1


@dataclass(frozen=True, slots=True)
class Rest:
    """A line of tier 3."""

    path: str
    value: str
    origin: str
    is_overridden: bool


@dataclass(frozen=True, slots=True)
class Review:
    """The three tiers of a launch, and what was found."""

    rows: tuple[Row, ...]
    baselines: tuple[str, ...]
    knobs: tuple[Knob, ...]
    rest: tuple[Rest, ...]
    findings: tuple[Finding, ...]


def review(cases: Sequence[Case], findings: Sequence[Finding]) -> Review:
    """Put what is known about runs into the tiers.

    Args:
        cases: The runs; the first of each baseline speaks for its repetitions on other clocks and seeds.
        findings: What the checks found.
    """
    first: dict[str, Case] = {}
    for case in cases:
        first.setdefault(case.config.label, case)
    systems = list(first.values())
    suspect = {path for finding in findings for path in finding.told.paths}
    rows = [_identity(cases), *(_row(item, systems, suspect) for item in ITEMS), _fingerprints(cases)]
    return Review(
        rows=tuple(rows),
        baselines=tuple(first),
        knobs=tuple(_knob(column, systems) for column in COLUMNS),
        rest=tuple(_rest(systems)),
        findings=tuple(findings),
    )


def _identity(cases: Sequence[Case]) -> Row:
    configs = [case.config for case in cases]
    modes = ", ".join(dict.fromkeys(config.mode.value for config in configs))
    seeds = ", ".join(dict.fromkeys(str(config.seed) for config in configs))
    runs = "1 run" if len(configs) == 1 else f"{len(configs)} runs"
    overridden = any({"mode", "seed"} & case.overridden for case in cases)
    return Row("runs", configs[0].run_set, f"{runs}: mode {modes}; seed {seeds}", Status.OK, overridden)


def _fingerprints(cases: Sequence[Case]) -> Row:
    conditions = ", ".join(dict.fromkeys(case.prints.condition for case in cases))
    return Row("condition", conditions, "runs of one condition may share a figure", Status.OK, is_overridden=False)


def _row(item: Item, systems: Sequence[Case], suspect: set[str]) -> Row:
    status = Status.OK
    if suspect & set(item.paths):
        status = Status.CHECK
    elif all(case.is_default(item.paths) for case in systems):
        status = Status.DEFAULT
    overridden = any(case.overridden & set(item.paths) for case in systems)
    return Row(item.label, _each(item.value, systems), item.note(systems[0]), status, overridden)


def _knob(column: Column, systems: Sequence[Case]) -> Knob:
    paths = set(column.paths)
    return Knob(column.title, tuple(Cell(column.show(case.config), bool(case.overridden & paths)) for case in systems))


def _rest(systems: Sequence[Case]) -> Iterator[Rest]:
    shown = {path for part in (*ITEMS, *COLUMNS) for path in part.paths} | IDENTITY
    for path in values_of(systems[0].config):
        if path not in shown:
            origins = dict.fromkeys(case.origins.get(path, "default") for case in systems)
            overridden = any(path in case.overridden for case in systems)
            value = _each(lambda config, path=path: values_of(config)[path], systems)  # type: ignore[misc]
            yield Rest(path, value, ", ".join(origins), overridden)


def _each(show: Show, systems: Sequence[Case]) -> str:
    """One value if all systems have it, else each one's."""
    values = {case.config.label: show(case.config) for case in systems}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{label} {value}" for label, value in values.items())
