"""The gate of a plan: what the checks find, whether it may start, and what is written down of it.

``launch``, ``sim run`` and ``sim sweep`` pass it alike; what they show of it is theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fluxctl.commands._request import Plan, PlannedRun, Request
from fluxctl.config.model import Config
from fluxctl.errors import FluxError
from fluxctl.gate.checks import CHECKS, Finding, Level, examine
from fluxctl.gate.facts import Case, CourseFacts, DeviceFacts
from fluxctl.gate.host import look_at
from fluxctl.runs.devices import visible_devices
from fluxctl.types import JSON, Verdict

SCHEMA_VERSION: Final = 1
_MAX_UPDATES: Final = 1_000  # enough to see whether cycles close
_NOT_FORCED: Final = frozenset({"usable_parts"})  # without these there is nothing that a run could do


def refuses(findings: Sequence[Finding], *, forces: bool) -> bool:
    """Whether what was found keeps a run from starting; what can be forced does not, if it is."""
    blocks = (finding for finding in findings if finding.level is Level.BLOCK)
    return any(not forces or finding.check in _NOT_FORCED for finding in blocks)


class GateBlockedError(FluxError):
    """The gate refuses the launch."""

    code = "gate"

    def __init__(self, findings: Sequence[Finding]) -> None:
        blocks = [finding for finding in findings if finding.level is Level.BLOCK]
        names = list(dict.fromkeys(finding.check for finding in blocks))
        count = "1 check" if len(names) == 1 else f"{len(names)} checks"
        forced = "" if refuses(blocks, forces=True) else "; --force starts it all the same, and records that"
        super().__init__(
            f"the gate blocks this launch: {count} failed ({', '.join(names)}): {blocks[0].told.message}",
            hint=f"{blocks[0].told.hint}{forced}",
        )


@dataclass(frozen=True)
class Gate:
    """What the gate has to say about a plan.

    Args:
        cases: One per run, in the order of the plan.
        findings: What the checks found.
    """

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether the launch is refused."""
        return any(finding.level is Level.BLOCK for finding in self.findings)

    @property
    def status(self) -> str:
        """``ok``, ``check`` or ``blocked``."""
        return "blocked" if self.is_blocked else "check" if self.findings else "ok"

    def findings_of(self, case: Case) -> list[Finding]:
        """What was found in one run."""
        return [finding for finding in self.findings if case.config.label in finding.runs]

    def record(self, case: Case, *, forced: bool) -> dict[str, JSON]:
        """``gate.json`` of one run."""
        own = self.findings_of(case)
        blocked = any(finding.level is Level.BLOCK for finding in own)
        return {
            "schema_version": SCHEMA_VERSION,
            "status": "blocked" if blocked else "check" if own else "ok",
            "forced": forced and self.is_blocked,
            "checks": list(CHECKS),
            "findings": [_finding_json(finding) for finding in own],
            "condition": case.prints.condition,
            "overridden": sorted(case.overridden),
        }

    def recorded(self, plan: Plan, *, forced: bool) -> Plan:
        """The plan, each run with its record."""
        runs = zip(plan.runs, self.cases, strict=True)
        return replace(plan, runs=tuple(replace(run, gate=self.record(case, forced=forced)) for run, case in runs))

    def to_json(self) -> dict[str, JSON]:
        """For machines."""
        return {"status": self.status, "findings": [_finding_json(finding) for finding in self.findings]}


def pass_gate(plan: Plan, request: Request, *, num_devices: int | None = None) -> Gate:
    """Look at every run of a plan and check it.

    Args:
        plan: The runs.
        request: What they come from.
        num_devices: Accelerators that are asked for; None = nobody asked.
    """
    name = None if request.file is None else str(request.file)
    devices = None if num_devices is None else DeviceFacts(num_devices, visible_devices(os.environ))
    cases = look_at([(run.resolved, _overridden(run, name)) for run in plan.runs], walk=walk_through, devices=devices)
    return Gate(tuple(cases), tuple(examine(cases)))


def walk_through(config: Config) -> CourseFacts:
    """Walk through a run under its trace without training; if nothing commits, find a goal with which something does.

    The engine is imported here, since most launches need none in this process.
    """
    from fluxctl.whatif.plan import Wishes, forecast

    wishes = Wishes(max_updates=_MAX_UPDATES)
    found = forecast(config, wishes)

    def closes(goal: int) -> bool:
        smaller = config.aggregation.model_copy(update={"goal": goal})
        return forecast(config.model_copy(update={"aggregation": smaller}), wishes).totals["cycles"] >= 1

    largest = 0
    if found.totals["cycles"] < 1:
        low, high = 0, config.aggregation.goal  # a cycle of `low` closes, one of `high` does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if closes(middle) else (low, middle)
        largest = low
    return CourseFacts(
        verdict=Verdict(found.verdict),
        reason=found.reason,
        engine_s=found.engine_s,
        num_cycles=found.totals["cycles"],
        reachable_mean=found.reachable.mean,
        share_below_goal=found.share_below_goal,
        largest_goal=largest,
    )


def _overridden(run: PlannedRun, file: str | None) -> frozenset[str]:
    """Values that were set for this launch."""
    fixed = {"flag --run-set", "flag --only"}
    return frozenset(
        path for path, origin in run.resolved.origins().items() if origin not in fixed and _is_wish(origin, file)
    )


def _is_wish(origin: str, file: str | None) -> bool:
    return (
        origin == "--set"
        or origin.startswith(("flag ", "env "))
        or (file is not None and origin.startswith(f"{file}:"))
    )


def _finding_json(finding: Finding) -> Mapping[str, JSON]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "message": finding.told.message,
        "hint": finding.told.hint,
        "paths": list(finding.told.paths),
        "runs": list(finding.runs),
    }
