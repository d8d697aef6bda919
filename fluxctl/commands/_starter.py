"""From a planned run to its directory and its engine; and the record of a run that was not allowed to start."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fluxctl.commands._gate import Gate, GateBlockedError
from fluxctl.commands._request import Plan, PlannedRun
from fluxctl.errors import ConfigError, ExitCode, os_reason
from fluxctl.gate.checks import Level
from fluxctl.runs.devices import place, visible_devices
from fluxctl.runs.files import write_json
from fluxctl.runs.layout import RunFolder, create_run
from fluxctl.runs.process import HANG_AFTER_S, EngineProcess, engine_command, standby_command
from fluxctl.runs.provenance import invocation, provenance
from fluxctl.runs.records import VerdictRecord
from fluxctl.runs.standby import Standby
from fluxctl.runs.supervise import Start, wall_ceiling_s
from fluxctl.types import JSON, Mode, Verdict


@dataclass
class Starter:
    """Makes run directories and starts their engines, one when its turn comes.

    Args:
        folder: Where runs live.
        expect: Told the id of a run, its number in the plan and its wall ceiling before its engine starts.
        hang_after_s: Wall seconds without a sign of life after which an engine is ended.
        num_devices: Accelerators to place trainers on; None = nobody asked.
        standby: Gives a run a process that waits for one, if there is one.
    """

    folder: Path
    expect: Callable[[str, int, float], None]
    hang_after_s: float = HANG_AFTER_S
    num_devices: int | None = None
    standby: Standby | None = None
    group: str = field(default_factory=lambda: secrets.token_hex(4))
    _provenance: Mapping[str, JSON] = field(default_factory=provenance)

    def starts(self, runs: Sequence[PlannedRun]) -> Iterator[Start]:
        """A start for each run; those on the wall clock have the machine to themselves."""
        for index, planned in enumerate(runs):
            yield Start(partial(self._start, index, planned), is_alone=planned.config.mode is Mode.REAL)

    def _start(self, index: int, planned: PlannedRun) -> EngineProcess:
        try:
            return self._begin(index, planned)
        except OSError as error:
            reason = os_reason(error)
            raise ConfigError(f"cannot start a run: {reason}", where=str(self.folder), hint="see --runs-dir") from None

    def _begin(self, index: int, planned: PlannedRun) -> EngineProcess:
        run = create_run(
            self.folder,
            planned.resolved,
            pair=planned.pair,
            group=self.group,
            invocation=invocation(sys.argv, os.environ),
            provenance=self._provenance,
        )
        if planned.gate is not None:
            write_json(run.gate, planned.gate)
        if self.num_devices is not None:
            devices = visible_devices(os.environ)[: self.num_devices]
            write_json(run.placement, place(planned.config.aggregation.concurrency, devices).to_json())
        ceiling_s = wall_ceiling_s(planned.config)
        self.expect(run.id, index, ceiling_s)
        return EngineProcess(
            run,
            engine_command(run),
            max_wall_s=ceiling_s,
            hang_after_s=self.hang_after_s,
            hand_over=None if self.standby is None else self.standby.take,
        )


def new_standby(folder: Path) -> Standby:
    """Somebody to keep an engine process ready for the next run in a folder."""
    return Standby(standby_command(folder))


def record_blocked(plan: Plan, gate: Gate, folder: Path) -> list[RunFolder]:
    """Write down which runs the gate refused, one for each baseline and variant, with the verdict BLOCKED.

    Raises:
        ConfigError: If the runs folder cannot be written.
    """
    seen: dict[str, RunFolder] = {}
    for planned, case in zip(plan.runs, gate.cases, strict=True):
        blocks = [finding for finding in gate.findings_of(case) if finding.level is Level.BLOCK]
        label = planned.config.label
        if not blocks or label in seen:
            continue
        run = create_run(
            folder,
            planned.resolved,
            invocation=invocation(sys.argv, os.environ),
            provenance=provenance(),
            starts=False,
        )
        write_json(run.gate, gate.record(case, forced=False))
        reason = "; ".join(f"{finding.check}: {finding.told.message}" for finding in blocks)
        error = {"code": GateBlockedError.code, "message": reason, "hint": blocks[0].told.hint, "where": None}
        run.write_verdict(VerdictRecord(Verdict.BLOCKED, reason, int(ExitCode.CHANGE_REQUEST), error))
        run.mark_ended()
        seen[label] = run
    return list(seen.values())
