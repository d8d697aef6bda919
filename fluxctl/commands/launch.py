"""``fluxctl launch``: from a run set to finished runs and one table."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._bands import group_by_seed, print_bands
from fluxctl.commands._execute import Outcome, choose_display, execute
from fluxctl.commands._gate import Gate, GateBlockedError, pass_gate, print_gate
from fluxctl.commands._options import (
    CONDITION,
    LIMITS,
    OUTPUT,
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
from fluxctl.commands._render import print_results
from fluxctl.commands._request import Plan, Request, make_plan
from fluxctl.commands._talk import Talk, print_json
from fluxctl.config.durations import show_duration
from fluxctl.config.override import Override, from_flag
from fluxctl.config.tree import Plain
from fluxctl.errors import ConfigError, ExitCode
from fluxctl.runs.layout import prepare_runs_dir, runs_dir
from fluxctl.types import JSON, Mode

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """Precedence: flag > --set > environment (FLUXCTL_SET_AGGREGATION__GOAL=5) > --file > run set >
baseline > defaults.

Examples:

fluxctl launch --run-set main --yes

fluxctl launch --run-set smoke --mode both --only fluxtune --yes

fluxctl launch --run-set head --seeds 0..4 --set server.lr=0.02 --yes"""


class ModeChoice(StrEnum):
    """Which clocks to run on."""

    REAL = "real"
    SIM = "sim"
    BOTH = "both"


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def _option(help_text: str, panel: str, metavar: str | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help_text, rich_help_panel=panel, metavar=metavar)
    return option


@app.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
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
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.", rich_help_panel=OUTPUT)] = 1,
    stop_on_fail: Annotated[bool, typer.Option("--stop-on-fail", help="Start no more after a broken run.")] = False,
    require_converged: Annotated[bool, typer.Option("--require-converged", help="Exit 1 unless all did.")] = False,
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
    flags = _flags(
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
            "--max-runtime": ("limits.max_runtime_s", _seconds(max_runtime, "--max-runtime", talk)),
            **stall_flags(stall_window, stall_window_s, stall_window_h),
            "--stall-on": ("limits.stall_on", None if stall_on is None else stall_on.value),
            "--stall-min-delta": ("limits.stall_min_delta", stall_min_delta),
            "--loss-min-rel-delta": ("limits.loss_min_rel_delta", loss_min_rel_delta),
            **_partition(partition),
        }
    )
    request = Request(
        run_set=run_set,
        only=names(only),
        file=file,
        sets=sets or (),
        flags=flags,
        modes=_modes(mode),
        seeds=seed_list(seeds) if seeds is not None else (),
        environ=os.environ,
    )
    plan = make_plan(request)
    gate = pass_gate(plan, request)
    if dry_run:
        raise typer.Exit(_show_dry_run(plan, gate, talk, as_json=as_json, shows_all=show_all))
    folder = runs_dir(runs_folder, os.environ)
    if as_json:
        print_json({"event": "plan", "runs": _plan_json(plan), "gate": gate.to_json()})
    elif talk.verbosity >= 0 or gate.is_blocked:
        print_gate(talk.err(), gate, title=_title(plan), shows_all=show_all)
    if gate.is_blocked and not force:
        raise GateBlockedError(gate.findings)
    plan = gate.recorded(plan, forced=force)
    _confirm(len(plan.runs), yes=yes, as_json=as_json)
    prepare_runs_dir(folder)
    display = choose_display(talk, as_json=as_json, shows_progress=not no_progress)
    outcome = execute(plan, folder, talk, display, jobs=jobs, stops_on_failure=stop_on_fail)
    code = outcome.exit_code(requires_convergence=require_converged)
    _show_outcome(outcome, folder, talk, code, as_json=as_json)
    raise typer.Exit(code)


def _flags(given: dict[str, tuple[str, Plain]]) -> list[Override]:
    return [from_flag(flag, path, value) for flag, (path, value) in given.items() if value is not None]


def _partition(text: str | None) -> dict[str, tuple[str, Plain]]:
    if text is None:
        return {}
    method, colon, alpha = text.partition(":")
    parts: dict[str, tuple[str, Plain]] = {"--partition": ("partition.method", method)}
    if colon:
        try:
            parts["--partition alpha"] = ("partition.alpha", float(alpha))
        except ValueError:
            hint = "for example --partition dirichlet:0.1"
            raise ConfigError(f"'{alpha}' is not a number", where=f"--partition {text}", hint=hint) from None
    return parts


def _modes(mode: ModeChoice | None) -> tuple[Mode, ...]:
    if mode is None:
        return ()
    return (Mode.SIM, Mode.REAL) if mode is ModeChoice.BOTH else (Mode(mode.value),)


def _plan_json(plan: Plan) -> list[dict[str, JSON]]:
    rows: list[dict[str, JSON]] = []
    for run in plan.runs:
        prints = run.prints
        rows.append(
            {
                "baseline": run.config.baseline,
                "mode": run.config.mode.value,
                "seed": run.config.seed,
                "pair": run.pair,
                "fingerprints": {"condition": prints.condition, "run": prints.run, "seedless": prints.seedless},
                "config": run.config.model_dump(mode="json"),
                "origins": dict(run.resolved.origins()),
            }
        )
    return rows


def _show_dry_run(plan: Plan, gate: Gate, talk: Talk, *, as_json: bool, shows_all: bool) -> int:
    error = GateBlockedError(gate.findings) if gate.is_blocked else None
    code = ExitCode.OK if error is None else error.exit_code
    if as_json:
        data: dict[str, JSON] = {"runs": _plan_json(plan), "gate": gate.to_json()}
        talk.envelope("launch", "ok" if error is None else "error", data, error)
        return int(code)
    print_gate(talk.out(), gate, title=_title(plan), shows_all=shows_all)
    talk.say("nothing was started (--dry-run); `fluxctl config show` with the same options prints every value")
    return int(code)


def _title(plan: Plan) -> str:
    if plan.run_set is None:
        return "a run of its own" if len(plan.runs) == 1 else f"{len(plan.runs)} runs"
    return f"{plan.run_set.name}: {plan.run_set.description}"


def _seconds(text: str | None, flag: str, talk: Talk) -> float | None:
    """Read a duration and say what was understood."""
    if text is None:
        return None
    value = seconds(text, flag)
    talk.say(f"{flag} {text} is {show_duration(value)} of engine time", verbosity=0)
    return value


def _confirm(num_runs: int, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("nobody is there to confirm the launch", hint="add --yes, or --dry-run to look only")
    runs = "1 run" if num_runs == 1 else f"{num_runs} runs"
    typer.confirm(f"Start {runs}?", abort=True, err=True)


def _show_outcome(outcome: Outcome, folder: Path, talk: Talk, code: int, *, as_json: bool) -> None:
    groups = group_by_seed(outcome.rows)
    has_bands = any(group.num_runs > 1 for group in groups)
    if as_json:
        status = {int(ExitCode.OK): "ok", int(ExitCode.ANSWER_IS_NO): "no"}.get(code, "error")
        data: dict[str, JSON] = {"runs": outcome.rows, "num_not_started": outcome.num_not_started}
        if has_bands:
            data["bands"] = [group.to_json() for group in groups]
        talk.envelope("launch", status, data, outcome.error())
        return
    if outcome.rows:
        print_results(talk.out(), outcome.rows)
    if has_bands:
        print_bands(talk.out(), groups)
    if outcome.num_not_started:
        talk.say(f"{outcome.num_not_started} runs were not started")
    talk.say(f"runs are in {folder}; look at one with `fluxctl runs show latest`")
