"""Running a plan: makes each run's directory, supervises its engine, keeps the results."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fluxctl.commands._progress import Display, Lines, Panel, RunState, Silent, Stream
from fluxctl.commands._request import Plan, PlannedRun
from fluxctl.commands._talk import Talk
from fluxctl.errors import ExitCode, FluxError, RunBrokeError
from fluxctl.runs.files import write_json
from fluxctl.runs.index import SUMMARY_FIELDS
from fluxctl.runs.layout import create_run
from fluxctl.runs.process import EngineProcess, engine_command
from fluxctl.runs.provenance import invocation, provenance
from fluxctl.runs.records import VerdictRecord
from fluxctl.runs.supervise import Interrupts, Supervision, wall_ceiling_s
from fluxctl.types import JSON, Verdict


@dataclass
class Outcome:
    """What came of a plan.

    Args:
        rows: One per run that ended, in the order of the plan, with the public field names.
        verdicts: The verdicts behind the rows.
        num_not_started: Runs that never began.
        interrupts: The signals that arrived.
    """

    rows: list[dict[str, JSON]]
    verdicts: list[VerdictRecord]
    num_not_started: int
    interrupts: Interrupts

    def exit_code(self, *, requires_convergence: bool = False) -> int:
        """One answer for all runs: a signal, then a bug, a broken run, a bad request, a plain no."""
        if self.interrupts.count:
            return self.interrupts.exit_code
        codes = {verdict.launch_code for verdict in self.verdicts}
        if requires_convergence and any(verdict.verdict is not Verdict.CONVERGED for verdict in self.verdicts):
            codes.add(int(ExitCode.ANSWER_IS_NO))
        worst_first = (ExitCode.INTERRUPTED, ExitCode.BUG, ExitCode.RUN_BROKE, ExitCode.CHANGE_REQUEST)
        return next((int(code) for code in (*worst_first, ExitCode.ANSWER_IS_NO) if code in codes), int(ExitCode.OK))

    def error(self) -> FluxError | None:
        """The first error that a run ended with."""
        return next((error for verdict in self.verdicts if (error := error_of(verdict)) is not None), None)


def choose_display(talk: Talk, *, as_json: bool, shows_progress: bool) -> Display:
    """How to show progress: a program's stream, a terminal's panel, or lines."""
    if as_json:
        return Stream()
    if talk.verbosity < 0 or not shows_progress or os.environ.get("FLUXCTL_NO_PROGRESS"):
        return Silent()
    return Panel(talk.err()) if sys.stderr.isatty() else Lines(talk)


def execute(
    plan: Plan,
    folder: Path,
    talk: Talk,
    display: Display,
    *,
    jobs: int = 1,
    stops_on_failure: bool = False,
    stops_on_refusal: bool = True,
) -> Outcome:
    """Run everything in a plan.

    Args:
        plan: What to run.
        folder: Where runs live.
        talk: How to speak.
        display: How to show progress.
        jobs: Most runs at a time.
        stops_on_failure: Whether a broken run keeps the rest from starting.
        stops_on_refusal: Whether a run that refuses its configuration does.
    """
    keeper = _Keeper(plan, talk, display, stops_on_failure, stops_on_refusal)
    starter = _Starter(folder, keeper)
    display.open()
    try:
        with Interrupts() as interrupts:
            Supervision(starter.starts(plan.runs), keeper, interrupts, jobs=jobs).run()
    finally:
        display.close()
    order = sorted(keeper.ended_runs, key=lambda item: item[0])
    rows, verdicts = [row for _, row, _ in order], [verdict for _, _, verdict in order]
    return Outcome(rows, verdicts, len(plan.runs) - len(order), interrupts)


def error_of(verdict: VerdictRecord) -> FluxError | None:
    """The error that a run ended with, as one of ours."""
    if verdict.error is None:
        return None
    told = verdict.error
    # A process that died without a word is shown by the end of its log. Where there is a message, the traceback stays
    # in run.log and verdict.json.
    detail = told.get("detail") if told.get("code") == RunBrokeError.code else None
    error = RunBrokeError(
        str(told.get("message") or verdict.reason),
        hint=_text(told.get("hint")),
        where=_text(told.get("where")),
        snippet="\n".join(f"  | {line}" for line in str(detail).splitlines()[-20:]) if detail else None,
    )
    error.code = str(told.get("code") or error.code)
    return error


def row_of(planned: PlannedRun, run_id: str, verdict: VerdictRecord) -> dict[str, JSON]:
    """The public fields of an ended run."""
    config = planned.config
    row: dict[str, JSON] = {
        "id": run_id,
        "run_set": config.run_set,
        "baseline": config.baseline,
        "variant": config.variant,
        "mode": config.mode.value,
        "seed": config.seed,
        "pair": planned.pair,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
    }
    return row | {name: verdict.summary.get(name) for name in SUMMARY_FIELDS}


@dataclass
class _Keeper:
    """Hears what happens to runs, shows it and keeps the results."""

    plan: Plan
    talk: Talk
    display: Display
    stops_on_failure: bool
    stops_on_refusal: bool
    live: dict[str, RunState] = field(default_factory=dict)
    ended_runs: list[tuple[int, dict[str, JSON], VerdictRecord]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # run id -> its number in the plan

    def enter(self, run_id: str, number: int, max_wall_s: float) -> None:
        """Expect a run."""
        self.numbers[run_id] = number
        self.live[run_id] = RunState(run_id, self.plan.runs[number], max_wall_s)

    def started(self, process: EngineProcess) -> None:
        """A run has started."""
        self.display.started(self.live[process.folder.id])

    def news(self, process: EngineProcess, lines: Sequence[dict[str, Any]]) -> None:
        """Take over the latest progress line."""
        state = self.live[process.folder.id]
        latest = [line for line in lines if line.get("event") == "progress"][-1:]
        for line in latest:
            is_milestone = (line.get("phase"), line.get("what")) != (state.last.get("phase"), state.last.get("what"))
            state.last = line
            self.display.turn(self.live, state, is_milestone=is_milestone)
        for warning in state.warnings():
            self.talk.say(f"{state.name}: warning: {warning}")

    def stopping(self) -> None:
        """The user has asked to end."""
        self.talk.say("stopping cleanly; once more to end at once")

    def ended(self, process: EngineProcess, verdict: VerdictRecord) -> bool:
        """Keep the result; whether more runs may start."""
        run_id = process.folder.id
        state = self.live.pop(run_id)
        row = row_of(state.planned, run_id, verdict)
        self.ended_runs.append((self.numbers[run_id], row, verdict))
        self.display.ended(state, verdict, row)
        error = error_of(verdict)
        if error is not None:
            self.talk.error(error)
        is_hopeless = verdict.launch_code == ExitCode.CHANGE_REQUEST  # the same request would fail again
        is_broken = verdict.launch_code in (ExitCode.RUN_BROKE, ExitCode.BUG)
        return not ((is_hopeless and self.stops_on_refusal) or (is_broken and self.stops_on_failure))


@dataclass
class _Starter:
    """Makes run directories and starts their engines, one when its turn comes."""

    folder: Path
    keeper: _Keeper
    group: str = field(default_factory=lambda: secrets.token_hex(4))
    _provenance: Mapping[str, JSON] = field(default_factory=provenance)

    def starts(self, runs: Sequence[PlannedRun]) -> Iterator[Callable[[], EngineProcess]]:
        """A start for each run."""
        for index, planned in enumerate(runs):
            yield partial(self._start, index, planned)

    def _start(self, index: int, planned: PlannedRun) -> EngineProcess:
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
        ceiling_s = wall_ceiling_s(planned.config)
        self.keeper.enter(run.id, index, ceiling_s)
        return EngineProcess(run, engine_command(run), max_wall_s=ceiling_s)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
