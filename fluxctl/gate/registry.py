"""What a gate check is, how it is registered, and how all of them are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from fluxctl.gate.facts import Case


class Level(StrEnum):
    """What a finding does to a launch."""

    BLOCK = "block"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Told:
    """What a check has to say.

    Attributes:
        message: What is wrong, with the numbers.
        hint: The smallest change that helps.
        paths: The values that it is about.
    """

    message: str
    hint: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and in which runs."""

    check: str
    level: Level
    told: Told
    runs: tuple[str, ...]


RunCheck: TypeAlias = Callable[[Case], Iterator[Told]]
SetCheck: TypeAlias = Callable[[Sequence[Case]], Iterator[Told]]


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check, of a run or of all runs together."""

    name: str
    level: Level
    run: RunCheck | None = None
    runs: SetCheck | None = None


CHECKS: Final[dict[str, Check]] = {}


def run_check(name: str, level: Level) -> Callable[[RunCheck], RunCheck]:
    """Register a check that looks at each run by itself."""

    def add(function: RunCheck) -> RunCheck:
        _register(Check(name, level, run=function))
        return function

    return add


def set_check(name: str, level: Level) -> Callable[[SetCheck], SetCheck]:
    """Register a check that compares runs."""

    def add(function: SetCheck) -> SetCheck:
        _register(Check(name, level, runs=function))
        return function

    return add


def _register(check: Check) -> None:
    if check.name in CHECKS:
        raise ValueError(f"gate check {check.name!r} is registered twice")
    CHECKS[check.name] = check


def examine(cases: Sequence[Case]) -> list[Finding]:
    """Run all checks; what several runs have in common is one finding. Blocks come first."""
    found: dict[tuple[str, Told], list[str]] = {}
    for check in CHECKS.values():
        for case in cases if check.run is not None else ():
            for told in check.run(case) if check.run is not None else ():
                found.setdefault((check.name, told), []).append(case.config.label)
        for told in check.runs(cases) if check.runs is not None else ():
            found.setdefault((check.name, told), []).extend(case.config.label for case in cases)
    findings = [
        Finding(name, CHECKS[name].level, told, tuple(dict.fromkeys(labels))) for (name, told), labels in found.items()
    ]
    return sorted(findings, key=lambda finding: finding.level is not Level.BLOCK)
