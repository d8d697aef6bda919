"""``fluxctl watch``: guards a live run, or replays a finished one, with the engine's own stop rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from fluxctl import wall
from fluxctl.commands._options import (
    HELP,
    LIMITS,
    OUTPUT,
    JsonFlag,
    RunsDir,
    StallSignal,
    StallWindow,
    seconds,
    stall_flags,
)
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.commands._watch_view import LinesView, PanelView, StreamView, View, one_line, panel, standing
from fluxctl.config.choices import choice_check
from fluxctl.config.load import Resolved, load_layer, resolve
from fluxctl.config.override import Override, from_flag
from fluxctl.config.source import read_text
from fluxctl.config.tree import Plain
from fluxctl.errors import ExitCode
from fluxctl.policies import REGISTRIES
from fluxctl.policies.stopping import StopDecision
from fluxctl.runs.files import write_json
from fluxctl.runs.index import RunInfo, find_run, read_info
from fluxctl.runs.layout import runs_dir
from fluxctl.runs.outcomes import convergence, stagnation
from fluxctl.runs.records import VerdictRecord
from fluxctl.runs.wishes import StopWish
from fluxctl.telemetry.evaluations import evaluations
from fluxctl.types import JSON, Verdict
from fluxctl.watch.loop import EventTail, Guard, conditions_of

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """A RUN is latest, latest~1, an id or the beginning of one, a path, or baseline:mode.

Without options a run is judged by its own limits. Exit code 0: it ended well, or nothing fired (--once); 1: STALLED,
DID_NOT_CONVERGE, DIVERGED, STARVED or interrupted; 3: it broke; 5: there is no run.

Examples:

fluxctl watch

fluxctl watch latest --stall-window 2h --stall-on loss

fluxctl watch fluxtune:sim --target-acc 0.8 --converge-window 5 --no-stop --json"""
_POLL_S: Final = 0.5
_GRACE_S: Final = 3.0  # wall seconds in which the engine may end by itself; it has the same rules
_STOP_WAIT_S: Final = 60.0  # wall seconds from the stop file to the verdict

# What watch answers for a run that ended so; a run of no use to its owner is a no, one that broke is broken.
ANSWERS: Final[Mapping[Verdict, ExitCode]] = {
    Verdict.COMPLETED: ExitCode.OK,
    Verdict.CONVERGED: ExitCode.OK,
    Verdict.DID_NOT_CONVERGE: ExitCode.ANSWER_IS_NO,
    Verdict.STALLED: ExitCode.ANSWER_IS_NO,
    Verdict.DIVERGED: ExitCode.ANSWER_IS_NO,
    Verdict.STARVED: ExitCode.ANSWER_IS_NO,
    Verdict.INTERRUPTED: ExitCode.ANSWER_IS_NO,
    Verdict.BLOCKED: ExitCode.CHANGE_REQUEST,
    Verdict.WALL_CEILING: ExitCode.RUN_BROKE,
    Verdict.TIMEOUT: ExitCode.RUN_BROKE,
    Verdict.CRASHED: ExitCode.RUN_BROKE,
    Verdict.NO_ROUNDS: ExitCode.RUN_BROKE,
}


def _limit(help_text: str, metavar: str | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help_text, rich_help_panel=LIMITS, metavar=metavar)
    return option


@app.command(epilog=_EPILOG, context_settings=HELP)
def watch(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Which run.")] = "latest",
    stall_on: Annotated[StallSignal | None, _limit("What counts as progress.")] = None,
    stall_window: StallWindow = None,
    stall_window_s: Annotated[float | None, _limit("The same in seconds.")] = None,
    stall_window_h: Annotated[float | None, _limit("The same in hours.")] = None,
    stall_min_delta: Annotated[float | None, _limit("Gain in accuracy that is progress.")] = None,
    loss_min_rel_delta: Annotated[float | None, _limit("Relative drop in loss that is progress.")] = None,
    target_acc: Annotated[float | None, _limit("Test accuracy to hold.")] = None,
    converge_window: Annotated[int | None, _limit("Bins in a row at the target.")] = None,
    max_bins: Annotated[int | None, _limit("Stop after so many bins.")] = None,
    max_runtime: Annotated[str | None, _limit("Engine time, for example 48h.", "TIME")] = None,
    no_stop: Annotated[bool, typer.Option("--no-stop", help="Only report.", rich_help_panel=OUTPUT)] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once, do not follow.", rich_help_panel=OUTPUT)] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Guard a run: end it when a stop rule fires."""
    talk: Talk = ctx.obj
    budget_s = None if max_runtime is None else seconds(max_runtime, "--max-runtime")
    given: dict[str, tuple[str, Plain]] = {
        **stall_flags(stall_window, stall_window_s, stall_window_h),
        "--stall-on": ("limits.stall_on", None if stall_on is None else stall_on.value),
        "--stall-min-delta": ("limits.stall_min_delta", stall_min_delta),
        "--loss-min-rel-delta": ("limits.loss_min_rel_delta", loss_min_rel_delta),
        "--target-acc": ("limits.target_accuracy", target_acc),
        "--converge-window": ("limits.converge_window", converge_window),
        "--max-bins": ("limits.max_bins", max_bins),
        "--max-runtime": ("limits.max_runtime_s", budget_s),
    }
    flags = [from_flag(flag, path, value) for flag, (path, value) in given.items() if value is not None]
    info = find_run(run, runs_dir(runs_folder, os.environ))
    resolved = _judged_by(info, flags)
    watcher = Watcher(info, resolved, talk, stops=not no_stop, as_json=as_json)
    watcher.look()
    if not once:
        watcher.follow()
    raise typer.Exit(watcher.conclude())


def _judged_by(info: RunInfo, flags: list[Override]) -> Resolved:
    """The run's configuration, with the limits that it shall be judged by."""
    return resolve([load_layer(read_text(info.folder.config))], flags, check=choice_check(REGISTRIES))


@dataclass
class Watcher:
    """Follows one run to its end, or to the first rule that fires.

    Args:
        info: The run.
        resolved: What to judge it by.
        talk: How to speak.
        stops: Whether to stop a live run when a rule fires.
        as_json: Whether to speak JSON Lines.
    """

    info: RunInfo
    resolved: Resolved
    talk: Talk
    stops: bool
    as_json: bool

    def __post_init__(self) -> None:
        self.guard = Guard(conditions_of(self.resolved.config))
        self.was_live = self.info.verdict is None
        self.has_stopped = False
        self._tail = EventTail(self.info.folder.events)
        self._view = self._choose_view()

    @property
    def title(self) -> str:
        """Name of the run for people."""
        return f"{self.info.record.id} ({'live' if self.was_live else 'ended'})"

    def look(self) -> None:
        """Take in what there is."""
        verdict = self.info.verdict or self._refreshed()  # first: what is written later may be incomplete
        for line in self._tail.new():
            self.guard.take(line)
            if self.was_live:
                self._view.turn(self.guard)
        if verdict is not None:
            self.guard.settle()

    def follow(self) -> None:
        """Keep looking until the run has ended or a rule has fired, and then end it."""
        if self.info.verdict is not None:
            return
        self._view.open()
        try:
            while self.info.verdict is None and self.guard.decision is None:
                wall.pause(_POLL_S)
                self.look()
            if self.info.verdict is None:
                self._await_end(_GRACE_S)
        finally:
            self._view.close()
        if self.info.verdict is None and self.stops:
            self._stop()

    def conclude(self) -> int:
        """Say how it stands or how it ended; returns the exit code."""
        decision, recorded = self.guard.decision, self.info.verdict
        verdict = decision.verdict if decision is not None else recorded.verdict if recorded is not None else None
        reason = decision.reason if decision is not None else recorded.reason if recorded is not None else ""
        code = ExitCode.OK if verdict is None else ANSWERS[verdict]
        if self.as_json:
            self._envelope(verdict, reason, code, recorded)
        else:
            self._tell(verdict, reason, recorded)
        return int(code)

    def _envelope(self, verdict: Verdict | None, reason: str, code: ExitCode, recorded: VerdictRecord | None) -> None:
        data: dict[str, JSON] = {
            "run": self.info.record.id,
            "verdict": None if verdict is None else verdict.value,
            "reason": reason,
            "rule": None if self.guard.decision is None else self.guard.decision.rule,
            "at_event": self.guard.where(),
            "is_live": recorded is None,
            "has_stopped": self.has_stopped,
            "recorded": None if recorded is None else recorded.verdict.value,
            **standing(self.guard),
        }
        status = {ExitCode.OK: "ok", ExitCode.ANSWER_IS_NO: "no"}.get(code, "error")
        self.talk.envelope("watch", status, data)

    def _tell(self, verdict: Verdict | None, reason: str, recorded: VerdictRecord | None) -> None:
        console = self.talk.out()
        if console.is_terminal:
            console.print(panel(self.guard, self.title))
        else:
            console.print(plain_text(one_line(self.guard)), soft_wrap=True)
        if verdict is None:
            console.print(plain_text(f"{self.info.record.id} goes on"), soft_wrap=True)
            return
        place = self.guard.where()
        where = "" if place is None else f" (line {place['line']} of events.jsonl, bin {place['bins']})"
        console.print(plain_text(f"{verdict.value}: {reason}{where}", "bold"), soft_wrap=True)
        if recorded is not None and recorded.verdict is not verdict:
            console.print(plain_text(f"recorded: {recorded.verdict.value}: {recorded.reason}"), soft_wrap=True)

    def _stop(self) -> None:
        decision = self.guard.decision
        if decision is None:
            return
        told = f"{decision.verdict.value}: {decision.reason}"
        self.talk.say(f"STOPPING {self.info.record.id}: {told}", verbosity=-1)
        StopWish(f"{decision.reason} (stopped by fluxctl watch)", decision.verdict).write(self.info.folder)
        self.has_stopped = True
        self._await_end(_STOP_WAIT_S)
        self._write_outcome(decision)
        if self.info.verdict is None:
            self.talk.say(f"the run has not ended {_STOP_WAIT_S:g} s after it was asked to", verbosity=-1)

    def _write_outcome(self, decision: StopDecision) -> None:
        """Leave ``stall.json`` or ``converge.json``, as the engine does for the rules that it has itself."""
        folder, recorded = self.info.folder, self.info.verdict
        if recorded is None or recorded.verdict is not decision.verdict:
            return  # the run went its own way in the meantime
        if decision.rule == "target":
            wall_s = recorded.summary.get("wall_s")
            points = [point for point in evaluations(folder.events) if point.engine_s <= self.guard.engine_s]
            told = convergence(self.guard.state, points, wall_s if isinstance(wall_s, float) else None)
            write_json(folder.converge, told)
        elif decision.rule == "stall":
            write_json(folder.stall, stagnation(self.guard.state, self.guard.engine_s))

    def _await_end(self, limit_s: float) -> None:
        deadline_s = wall.monotonic_s() + limit_s
        while self._refreshed() is None and wall.monotonic_s() < deadline_s:
            wall.pause(_POLL_S / 5)

    def _refreshed(self) -> VerdictRecord | None:
        """Read again whether the run has ended."""
        self.info = read_info(self.info.folder) or self.info
        return self.info.verdict

    def _choose_view(self) -> View:
        if self.as_json:
            return StreamView()
        return PanelView(self.talk.err(), self.title) if sys.stderr.isatty() else LinesView(self.talk)
