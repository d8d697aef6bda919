"""``fluxctl launch``: from a run set to finished runs and one table."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._again import again
from fluxctl.commands._execute import Outcome, choose_display, execute
from fluxctl.commands._gate import Gate, GateBlockedError, pass_gate, refuses
from fluxctl.commands._gate_view import print_gate
from fluxctl.commands._launch_flags import ModeChoice, Switch, flags_of, modes_of, partition_flags, told_seconds
from fluxctl.commands._launch_view import plan_json, show_dry_run, show_outcome, title
from fluxctl.commands._options import (
    CONDITION,
    HELP,
    LIMITS,
    OUTPUT,
    RUNNING,
    ConfigFile,
    JsonFlag,
    Only,
    RunsDir,
    RunSetName,
    Sets,
    StallSignal,
    StallWindow,
    names,
    seconds,
    seed_list,
    stall_flags,
)
from fluxctl.commands._request import Plan, Request, make_plan
from fluxctl.commands._slate import clean_slate
from fluxctl.commands._starter import new_standby, record_blocked
from fluxctl.commands._talk import Talk, print_json
from fluxctl.commands._then import Launched, follow_up, launched_runs, read_follow_ups
from fluxctl.errors import ConfigError, ExitCode
from fluxctl.runs.devices import read_devices
from fluxctl.runs.layout import prepare_runs_dir, runs_dir
from fluxctl.runs.process import HANG_AFTER_S
from fluxctl.runs.standby import Standby

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """Precedence: flag > --set > environment (FLUXCTL_SET_AGGREGATION__GOAL=5) > --file > run set >
baseline > defaults.

Examples:

fluxctl launch --run-set main --yes

fluxctl launch --run-set smoke --mode both --only fluxtune --yes

fluxctl launch --run-set head --seeds 0..4 --set server.lr=0.02 --yes

fluxctl launch --run-set smoke --mode both --then parity,sanity --yes

fluxctl launch --run-set head --avail-trace syn_20,syn_50 --jobs 2 --yes"""


def _option(help_text: str, panel: str, metavar: str | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help_text, rich_help_panel=panel, metavar=metavar)
    return option


def _running(help_text: str, metavar: str | None = None, min: int | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help_text, rich_help_panel=RUNNING, metavar=metavar, min=min)
    return option


@app.command(epilog=_EPILOG, context_settings=HELP)
def launch(
    ctx: typer.Context,
    run_set: RunSetName = None,
    only: Only = None,
    file: ConfigFile = None,
    sets: Sets = None,
    mode: Annotated[ModeChoice | None, _option("Wall clock, virtual clock, or a pair.", CONDITION)] = None,
    seed: Annotated[int | None, _option("Seed of every draw.", CONDITION)] = None,
    seeds: Annotated[str | None, _option("Several seeds: 0..4 or 0,2,5.", CONDITION)] = None,
    model: Annotated[str | None, _option("minilm, tiny, or a folder.", CONDITION)] = None,
    data: Annotated[str | None, _option("wordnet-gloss or synthetic.", CONDITION)] = None,
    partition: Annotated[str | None, _option("uniform, dirichlet, or dirichlet:ALPHA.", CONDITION)] = None,
    clients: Annotated[int | None, _option("Clients N.", CONDITION)] = None,
    avail_trace: Annotated[
        str | None,
        _option("Availability traces, names or files; each baseline runs under each.", CONDITION, "A,B"),
    ] = None,
    min_clients: Annotated[int | None, _option("Trainers that must have registered.", CONDITION)] = None,
    concurrency: Annotated[int | None, _option("Most clients in flight, C.", CONDITION)] = None,
    aggregation_goal: Annotated[int | None, _option("Updates per cycle, K.", CONDITION)] = None,
    delays: Annotated[Switch | None, _option("Modelled durations.", CONDITION)] = None,
    delay_factor: Annotated[float | None, _option("Divides durations; 1 = full.", CONDITION)] = None,
    var_threshold: Annotated[float | None, _option("Bound of the variance gate.", CONDITION)] = None,
    max_iterations_per_bin: Annotated[int | None, _option("Cap on iterations of a bin.", CONDITION)] = None,
    var_stopping_policy: Annotated[str | None, _option("off, fixed_cap or plateau.", CONDITION)] = None,
    agg_rate_type: Annotated[str | None, _option("fedavg, old, new or grad_aware.", CONDITION)] = None,
    target_acc: Annotated[float | None, _option("Test accuracy to hold.", LIMITS)] = None,
    converge_window: Annotated[int | None, _option("Bins in a row at the target.", LIMITS)] = None,
    max_bins: Annotated[int | None, _option("Stop after so many bins.", LIMITS)] = None,
    max_runtime: Annotated[str | None, _option("Engine time, for example 48h or 1d2h.", LIMITS, "TIME")] = None,
    stall_window: StallWindow = None,
    stall_window_s: Annotated[float | None, _option("The same in seconds.", LIMITS)] = None,
    stall_window_h: Annotated[float | None, _option("The same in hours.", LIMITS)] = None,
    stall_on: Annotated[StallSignal | None, _option("What counts as progress.", LIMITS)] = None,
    stall_min_delta: Annotated[float | None, _option("Gain in accuracy that is progress.", LIMITS)] = None,
    loss_min_rel_delta: Annotated[float | None, _option("Relative drop in loss that is progress.", LIMITS)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run.", rich_help_panel=OUTPUT)] = False,
    force: Annotated[bool, typer.Option("--force", help="Start in spite of the gate.", rich_help_panel=OUTPUT)] = False,
    show_all: Annotated[bool, typer.Option("--show-all", help="Show every value.", rich_help_panel=OUTPUT)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=OUTPUT)] = False,
    jobs: Annotated[int, _running("Sims at a time; a real run is always alone.", min=1)] = 1,
    devices: Annotated[str | None, _running("Accelerators to place trainers on, or cpu.", "N")] = None,
    clean: Annotated[bool, _running("End engines that an earlier launch left behind.")] = False,
    stop_on_fail: Annotated[bool, _running("Start nothing more after a broken run.")] = False,
    require_converged: Annotated[bool, _running("Exit 1 unless all converged.")] = False,
    hang_after: Annotated[str | None, _running("End a run without a sign of life; 10m by default.", "TIME")] = None,
    then: Annotated[str | None, _running("Afterwards: parity, sanity, plot.", "A,B")] = None,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="No live progress.", rich_help_panel=OUTPUT)
    ] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the baselines of a run set, each to its verdict."""
    talk: Talk = ctx.obj
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds exclude each other", where=f"--seed {seed} --seeds {seeds}")
    flags = flags_of(
        {
            "--seed": ("seed", seed),
            "--model": ("model.name", model),
            "--data": ("data.source", data),
            "--clients": ("clients.num_clients", clients),
            "--min-clients": ("clients.min_clients", min_clients),
            "--concurrency": ("aggregation.concurrency", concurrency),
            "--aggregation-goal": ("aggregation.goal", aggregation_goal),
            "--delays": ("delays.enabled", None if delays is None else delays is Switch.ON),
            "--delay-factor": ("delays.factor", delay_factor),
            "--var-threshold": ("gate.var_threshold", var_threshold),
            "--max-iterations-per-bin": ("gate.max_iterations_per_bin", max_iterations_per_bin),
            "--var-stopping-policy": ("gate.stopping_policy", var_stopping_policy),
            "--agg-rate-type": ("aggregation.rate.name", agg_rate_type),
            "--target-acc": ("limits.target_accuracy", target_acc),
            "--converge-window": ("limits.converge_window", converge_window),
            "--max-bins": ("limits.max_bins", max_bins),
            "--max-runtime": ("limits.max_runtime_s", told_seconds(max_runtime, "--max-runtime", talk)),
            **stall_flags(stall_window, stall_window_s, stall_window_h),
            "--stall-on": ("limits.stall_on", None if stall_on is None else stall_on.value),
            "--stall-min-delta": ("limits.stall_min_delta", stall_min_delta),
            "--loss-min-rel-delta": ("limits.loss_min_rel_delta", loss_min_rel_delta),
            **partition_flags(partition),
        }
    )
    request = Request(
        run_set=run_set,
        only=names(only),
        file=file,
        sets=sets or (),
        flags=flags,
        modes=modes_of(mode),
        seeds=seed_list(seeds) if seeds is not None else (),
        traces=names([avail_trace]) if avail_trace is not None else (),
        environ=os.environ,
    )
    wishes = _Wishes(
        num_devices=None if devices is None else read_devices(devices),
        follow_ups=read_follow_ups(then),
        hang_after_s=HANG_AFTER_S if hang_after is None else seconds(hang_after, "--hang-after"),
        jobs=jobs,
        forces=force,
        cleans=clean,
        stops_on_failure=stop_on_fail,
        requires_convergence=require_converged,
        shows_all=show_all,
        shows_progress=not no_progress,
        as_json=as_json,
    )
    plan = make_plan(request)
    if dry_run:
        gate = pass_gate(plan, request, num_devices=wishes.num_devices)
        raise typer.Exit(show_dry_run(plan, gate, talk, as_json=as_json, shows_all=show_all))
    folder = runs_dir(runs_folder, os.environ)
    with new_standby(folder) as standby:
        if yes:
            standby.warm()  # it imports while the gate looks
        gate = pass_gate(plan, request, num_devices=wishes.num_devices)
        _enforce(plan, gate, folder, talk, wishes)
        _confirm(len(plan.runs), yes=yes, as_json=as_json)
        prepare_runs_dir(folder)
        clean_slate(folder, talk, cleans=clean)
        outcome = _run(gate.recorded(plan, forced=force), folder, talk, wishes, standby)
    code = outcome.exit_code(requires_convergence=require_converged)
    commands = again(ctx, plan.runs, outcome.left) if outcome.interrupts.count else []
    show_outcome(outcome, folder, talk, code, commands=commands, as_json=as_json)
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """How the runs shall be run; what they are is the request's business."""

    num_devices: int | None
    follow_ups: list[str]
    hang_after_s: float
    jobs: int
    forces: bool
    cleans: bool
    stops_on_failure: bool
    requires_convergence: bool
    shows_all: bool
    shows_progress: bool
    as_json: bool


def _enforce(plan: Plan, gate: Gate, folder: Path, talk: Talk, wishes: _Wishes) -> None:
    """Show the gate, and refuse what it blocks."""
    if wishes.as_json:
        print_json({"event": "plan", "runs": plan_json(plan), "gate": gate.to_json()})
    elif talk.verbosity >= 0 or gate.is_blocked:
        print_gate(talk.err(), gate, title=title(plan), shows_all=wishes.shows_all)
    if refuses(gate.findings, forces=wishes.forces):
        with contextlib.suppress(ConfigError, OSError):  # the block is what matters
            record_blocked(plan, gate, folder)
        raise GateBlockedError(gate.findings)


def _run(plan: Plan, folder: Path, talk: Talk, wishes: _Wishes, standby: Standby) -> Outcome:
    """Run the plan, and do what shall be done afterwards."""
    outcome = execute(
        plan,
        folder,
        talk,
        choose_display(talk, len(plan.runs), as_json=wishes.as_json, shows_progress=wishes.shows_progress),
        jobs=wishes.jobs,
        stops_on_failure=wishes.stops_on_failure,
        hang_after_s=wishes.hang_after_s,
        num_devices=wishes.num_devices,
        standby=standby,
    )
    has_broken = outcome.num_not_started > 0 or outcome.exit_code() not in (ExitCode.OK, ExitCode.ANSWER_IS_NO)
    if not wishes.follow_ups or outcome.interrupts.count or (wishes.stops_on_failure and has_broken):
        return outcome
    runs = launched_runs(outcome.rows, [verdict.launch_code for verdict in outcome.verdicts])
    launched = Launched(runs, folder, talk, wishes.as_json)
    codes = follow_up(wishes.follow_ups, launched, stops_on_failure=wishes.stops_on_failure)
    return replace(outcome, follow_up_codes=codes)


def _confirm(num_runs: int, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("nobody is there to confirm the launch", hint="add --yes, or --dry-run to look only")
    runs = "1 run" if num_runs == 1 else f"{num_runs} runs"
    typer.confirm(f"Start {runs}?", abort=True, err=True)
