"""Running a plan: supervises the engines of its runs, shows how they do, and keeps the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fluxctl.commands._progress import Display, Lines, Panel, Silent, Stream
from fluxctl.commands._request import Plan, PlannedRun
from fluxctl.commands._run_state import RunState
from fluxctl.commands._starter import Starter
from fluxctl.commands._talk import Talk
from fluxctl.errors import ExitCode, FluxError, RunBrokeError
from fluxctl.runs.index import SUMMARY_FIELDS
from fluxctl.runs.process import HANG_AFTER_S, EngineProcess
from fluxctl.runs.records import VerdictRecord
from fluxctl.runs.standby import Standby
from fluxctl.runs.supervise import Interrupts, Supervision
from fluxctl.types import JSON, Mode, Verdict


@dataclass
class Outcome:
    """What came of a plan.

    Args:
        rows: One per run that ended, in the order of the plan, with the public field names.
        verdicts: The verdicts behind the rows.
        num_not_started: Runs that never began.
        interrupts: The signals that arrived.
        refusal: Why a run could not be started, and those after it were not.
        left: Runs that were interrupted or never began, in the order of the plan.
        follow_up_codes: Exit codes of what was done with the runs afterwards.
    """

    rows: list[dict[str, JSON]]
    verdicts: list[VerdictRecord]
    num_not_started: int
    interrupts: Interrupts
    refusal: FluxError | None = None
    left: tuple[PlannedRun, ...] = ()
    follow_up_codes: tuple[int, ...] = ()

    def exit_code(self, *, requires_convergence: bool = False) -> int:
        """One answer for all runs: a signal, then a bug, a broken run, a bad request, a plain no."""
        if self.interrupts.count:
            return self.interrupts.exit_code
        codes = {*(verdict.launch_code for verdict in self.verdicts), *self.follow_up_codes}
        if self.refusal is not None:
            codes.add(int(self.refusal.exit_code))
        if requires_convergence and any(verdict.verdict is not Verdict.CONVERGED for verdict in self.verdicts):
            codes.add(int(ExitCode.ANSWER_IS_NO))
        worst_first = (ExitCode.INTERRUPTED, ExitCode.BUG, ExitCode.RUN_BROKE, ExitCode.CHANGE_REQUEST)
        return next((int(code) for code in (*worst_first, ExitCode.ANSWER_IS_NO) if code in codes), int(ExitCode.OK))

    def error(self) -> FluxError | None:
        """The first error that a run ended with, or why one could not be started."""
        return next((error for verdict in self.verdicts if (error := error_of(verdict)) is not None), self.refusal)


def choose_display(talk: Talk, num_runs: int, *, as_json: bool, shows_progress: bool) -> Display:
    """How to show progress: a program's stream, a terminal's panel, or lines."""
    if as_json:
        return Stream()
    if talk.verbosity < 0 or not shows_progress or os.environ.get("FLUXCTL_NO_PROGRESS"):
        return Silent()
    return Panel(talk.err(), num_runs) if sys.stderr.isatty() else Lines(talk)


def execute(
    plan: Plan,
    folder: Path,
    talk: Talk,
    display: Display,
    *,
    jobs: int = 1,
    stops_on_failure: bool = False,
    stops_on_refusal: bool = True,
    hang_after_s: float = HANG_AFTER_S,
    num_devices: int | None = None,
    standby: Standby | None = None,
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
        hang_after_s: Wall seconds without a sign of life after which a run is ended.
        num_devices: Accelerators to place trainers on; None = nobody asked.
        standby: Keeps a process ready for the next run; None = each run starts its own when its turn comes.
    """
    keeper = _Keeper(plan, talk, display, stops_on_failure, stops_on_refusal, standby)
    starter = Starter(folder, keeper.enter, hang_after_s, num_devices, standby)
    display.open()
    try:
        with Interrupts() as interrupts:
            Supervision(starter.starts(plan.runs), keeper, interrupts, jobs=jobs).run()
    finally:
        display.close()
    order = sorted(keeper.ended_runs, key=lambda item: item[0])
    rows, verdicts = [row for _, row, _ in order], [verdict for _, _, verdict in order]
    done = {number for number, _, verdict in order if verdict.verdict is not Verdict.INTERRUPTED}
    left = tuple(run for number, run in enumerate(plan.runs) if number not in done)
    return Outcome(rows, verdicts, len(plan.runs) - len(order), interrupts, keeper.refusal, left)


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
    standby: Standby | None
    live: dict[str, RunState] = field(default_factory=dict)
    ended_runs: list[tuple[int, dict[str, JSON], VerdictRecord]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # run id -> its number in the plan
    refusal: FluxError | None = None  # why a run could not be started
    is_stopping: bool = False  # whether the user has asked to end

    def enter(self, run_id: str, number: int, max_wall_s: float) -> None:
        """Expect a run."""
        self.numbers[run_id] = number
        self.live[run_id] = RunState(run_id, self.plan.runs[number], max_wall_s)

    def started(self, process: EngineProcess) -> None:
        """A run has started."""
        self.display.started(self.live[process.folder.id])
        self._get_next_ready()

    def news(self, process: EngineProcess, lines: Sequence[dict[str, Any]]) -> None:
        """Take over the latest progress line."""
        state = self.live[process.folder.id]
        progress = [line for line in lines if line.get("event") == "progress"]
        is_milestone = any([state.hear(line) for line in progress])  # a list: each of them is heard
        if progress:
            self.display.turn(self.live, state, is_milestone=is_milestone)
        for line in lines:
            if line.get("event") == "compute" and process.folder.placement.exists():
                self.talk.say(f"{state.name}: steps run on {line.get('device')}")
        for warning in state.warnings():
            self.talk.say(f"{state.name}: warning: {warning}")

    def _get_next_ready(self) -> None:
        """Let a process for the next run import beside this one, but not beside a run that the wall measures."""
        has_next = len(self.numbers) < len(self.plan.runs) and not self.is_stopping
        is_measured = any(state.planned.config.mode is Mode.REAL for state in self.live.values())
        if self.standby is not None and has_next and not is_measured:
            self.standby.warm()

    def refused(self, error: FluxError) -> None:
        """A run could not be started."""
        self.refusal = error
        self.talk.error(error)

    def stopping(self) -> None:
        """The user has asked to end."""
        self.is_stopping = True
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


def _text(value: object) -> str | None:
    return None if value is None else str(value)
