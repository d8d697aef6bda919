"""``fluxctl sim run``: one run in this process, for a profiler, a debugger, or a quick look."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import typer

from fluxctl.commands._execute import Outcome, choose_display, error_of, row_of
from fluxctl.commands._gate_view import guarded
from fluxctl.commands._options import ConfigFile, JsonFlag, Only, RunsDir, RunSetName, Sets
from fluxctl.commands._progress import Display
from fluxctl.commands._render import print_results
from fluxctl.commands._request import PlannedRun, make_plan
from fluxctl.commands._run_state import RunState
from fluxctl.commands._sim_options import (
    Clients,
    Concurrency,
    Data,
    Force,
    Goal,
    MaxBins,
    MaxRuntime,
    Model,
    NoProgress,
    Seed,
    Trace,
    only_run,
    shared_flags,
    sim_request,
)
from fluxctl.commands._talk import Talk
from fluxctl.errors import ExitCode
from fluxctl.runs.files import JsonLines, write_json
from fluxctl.runs.layout import RunFolder, create_run, prepare_runs_dir, runs_dir
from fluxctl.runs.provenance import invocation, provenance
from fluxctl.runs.supervise import Interrupts, wall_ceiling_s


def run(
    ctx: typer.Context,
    run_set: RunSetName = None,
    only: Only = None,
    file: ConfigFile = None,
    sets: Sets = None,
    seed: Seed = None,
    model: Model = None,
    data: Data = None,
    clients: Clients = None,
    trace: Trace = None,
    concurrency: Concurrency = None,
    aggregation_goal: Goal = None,
    max_bins: MaxBins = None,
    max_runtime: MaxRuntime = None,
    force: Force = False,
    no_progress: NoProgress = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Run one baseline in this process, on the virtual clock."""
    talk: Talk = ctx.obj
    flags = shared_flags(
        seed=seed,
        model=model,
        data=data,
        clients=clients,
        trace=trace,
        concurrency=concurrency,
        goal=aggregation_goal,
        max_bins=max_bins,
        max_runtime=max_runtime,
    )
    request = sim_request(run_set, only, file, sets, flags)
    plan = make_plan(request)
    only_run(plan)
    planned = only_run(guarded(plan, request, talk, forces=force, as_json=as_json))
    folder = runs_dir(runs_folder, os.environ)
    prepare_runs_dir(folder)
    display = choose_display(talk, 1, as_json=as_json, shows_progress=not no_progress)
    outcome = _run_here(planned, folder, display)
    _show(outcome, folder, talk, as_json=as_json)
    raise typer.Exit(outcome.exit_code())


def _run_here(planned: PlannedRun, folder: Path, display: Display) -> Outcome:
    from fluxctl.engine.session import run_folder

    here = create_run(folder, planned.resolved, invocation=invocation(sys.argv, os.environ), provenance=provenance())
    if planned.gate is not None:
        write_json(here.gate, planned.gate)
    follower = _Follower(here, RunState(here.id, planned, wall_ceiling_s(planned.config)), display, sys.stderr)
    display.open()
    display.started(follower.state)
    try:
        with _kept_signals(), here.log.open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            verdict = run_folder(here, follower.tick)
        row = row_of(planned, here.id, verdict)
        display.ended(follower.state, verdict, row)
    finally:
        display.close()
    return Outcome([row], [verdict], 0, Interrupts())


class _Follower:
    """Shows the progress of a run in this process.

    Args:
        folder: The run's directory.
        state: The run as last heard of.
        display: How to show it.
        stderr: Where talk goes while what the engine says goes to the log.
    """

    def __init__(self, folder: RunFolder, state: RunState, display: Display, stderr: IO[str]) -> None:
        self.state = state
        self._lines = JsonLines(folder.wall_events)
        self._display = display
        self._stderr = stderr

    def tick(self) -> None:
        """Look for news."""
        progress = [line for line in self._lines.new() if line.get("event") == "progress"]
        is_milestone = any([self.state.hear(line) for line in progress])  # a list: each of them is heard
        if progress:
            with contextlib.redirect_stderr(self._stderr):
                self._display.turn({self.state.run_id: self.state}, self.state, is_milestone=is_milestone)


@contextlib.contextmanager
def _kept_signals() -> Iterator[None]:
    """Put the handlers back that the engine replaces."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)


def _show(outcome: Outcome, folder: Path, talk: Talk, *, as_json: bool) -> None:
    error = outcome.error()
    if as_json:
        code = outcome.exit_code()
        status = {int(ExitCode.OK): "ok", int(ExitCode.ANSWER_IS_NO): "no"}.get(code, "error")
        talk.envelope("sim run", status, {"run": outcome.rows[0]}, error)
        return
    for verdict in outcome.verdicts:
        found = error_of(verdict)
        if found is not None:
            talk.error(found)
    print_results(talk.out(), outcome.rows)
    talk.say(f"the run is in {folder}; look at it with `fluxctl runs show latest`")
