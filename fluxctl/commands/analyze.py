"""``fluxctl analyze``: questions to finished runs, each answered in a sentence, a table and a figure."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

from fluxctl.analyses.energy import COMPUTE_WATTS, RADIO_WATTS
from fluxctl.analyses.result import Analysis
from fluxctl.commands._analyze_ask import Figures, Out, answer, newest_launch
from fluxctl.commands._analyze_model import RunModel, step_memory
from fluxctl.commands._analyze_show import show
from fluxctl.commands._options import HELP, JsonFlag, RunsDir, RunWord
from fluxctl.commands._talk import Talk
from fluxctl.errors import AssetError, ConfigError
from fluxctl.runs.index import find_run
from fluxctl.runs.layout import RunFolder, runs_dir

_EPILOG: Final = """A RUN is latest, latest~1, an id or the beginning of one, a path, or baseline:mode.

Figures go to the run's own folder figures/, as HTML that needs no network and the plotted numbers as CSV.

Examples:

fluxctl analyze variance fluxtune:sim --max-bins 40

fluxctl analyze redundancy --max-frac 0

fluxctl analyze to-target --target 0.75"""

app = typer.Typer(
    add_completion=False,
    help="Ask finished runs, and get words, tables and figures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=HELP,
)


@app.command(context_settings=HELP)
def variance(
    ctx: typer.Context,
    run: RunWord = "latest",
    max_bins: Annotated[int | None, typer.Option(min=1, help="Only the first so many bins, for like for like.")] = None,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at the variance gate: curves, commit reasons, what-ifs, and whether it can be reached."""
    from fluxctl.analyses.variance import variance as analyse

    answer(ctx, run, runs_folder, lambda folder: analyse(folder, max_bins), figures, out, as_json)


@app.command(context_settings=HELP)
def redundancy(
    ctx: typer.Context,
    run: RunWord = "latest",
    max_frac: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 1 if a larger share of full payloads is redundant.")
    ] = None,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Count full payloads per client and model version."""
    from fluxctl.analyses.redundancy import redundancy as analyse

    answer(ctx, run, runs_folder, lambda folder: analyse(folder, max_frac), figures, out, as_json)


@app.command(context_settings=HELP)
def partition(
    ctx: typer.Context,
    run: RunWord = "latest",
    collapse: Annotated[
        float, typer.Option(min=0, max=1, help="Accuracy lost by one commit that counts as a collapse.")
    ] = 0.05,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at the class mix of clients, bins and cohorts, over alpha, and whether it goes with collapses."""
    from fluxctl.analyses.partition import partition as analyse

    answer(ctx, run, runs_folder, lambda folder: analyse(folder, collapse), figures, out, as_json)


@app.command(context_settings=HELP)
def timing(
    ctx: typer.Context,
    run: RunWord = "latest",
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Add up where the wall time went: phases of steps, parts of cycles, functions."""
    from fluxctl.analyses.timing import timing as analyse

    answer(ctx, run, runs_folder, analyse, figures, out, as_json)


@app.command(context_settings=HELP)
def sanity(ctx: typer.Context, run: RunWord = "latest", runs_folder: RunsDir = None, as_json: JsonFlag = False) -> None:
    """Check that a run's events, summary and verdict tell one story; exit code 1 if they do not."""
    from fluxctl.analyses.sanity import sanity as analyse

    answer(ctx, run, runs_folder, analyse, False, None, as_json)


@app.command(context_settings=HELP)
def jvp(
    ctx: typer.Context,
    run: RunWord = "latest",
    tasks: Annotated[int, typer.Option(min=1, max=10_000, help="Client steps to compare.")] = 20,
    tolerance: Annotated[float, typer.Option(min=0, help="Largest relative difference of two estimators.")] = 0.1,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare estimators and the fast path on the run's own model: passes, latency, memory, bits."""
    from fluxctl.analyses.jvp import jvp as analyse

    def compute(folder: RunFolder) -> Analysis:
        model = RunModel(folder, ctx.obj)
        weights, task = model.weights(), model.task
        try:
            return analyse(
                folder.id, model.config, task.learner, task.shards, weights, num_tasks=tasks, tolerance=tolerance
            )
        except ValueError as error:
            raise ConfigError(f"the checkpoint does not fit: {error}", where=str(folder.path)) from None

    answer(ctx, run, runs_folder, compute, figures, out, as_json)


@app.command(context_settings=HELP)
def fairness(
    ctx: typer.Context,
    run: RunWord = "latest",
    accuracy: Annotated[
        bool, typer.Option("--accuracy/--no-accuracy", help="Evaluate the final model on each client's own texts.")
    ] = True,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at participation and accuracy over clients, and at their worst decile."""
    from fluxctl.analyses.fairness import client_accuracies
    from fluxctl.analyses.fairness import fairness as analyse
    from fluxctl.telemetry.series import read_series

    def compute(folder: RunFolder) -> Analysis:
        series = read_series(folder.path)
        model = RunModel(folder, ctx.obj)
        weights = model.weights() if accuracy else None
        if weights is None:
            return analyse(series, why_not="the run left no checkpoint" if accuracy else "--no-accuracy")
        try:
            return analyse(series, client_accuracies(model.task.learner, model.task.shards, weights))
        except AssetError as error:
            return analyse(series, why_not=error.message)
        except ValueError as error:
            raise ConfigError(f"the checkpoint does not fit: {error}", where=str(folder.path)) from None

    answer(ctx, run, runs_folder, compute, figures, out, as_json)


@app.command("to-target", context_settings=HELP)
def to_target(
    ctx: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Which; all of the newest launch by default.")
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="ACC", help="Accuracy to reach; auto = the highest that every run reaches.")
    ] = "auto",
    compute_watts: Annotated[float, typer.Option(min=0, help="Power of a client that computes.")] = COMPUTE_WATTS,
    radio_watts: Annotated[float, typer.Option(min=0, help="Power of a client that sends.")] = RADIO_WATTS,
    memory: Annotated[bool, typer.Option("--memory/--no-memory", help="Measure the memory of a client's step.")] = True,
    allow_mixed: Annotated[bool, typer.Option("--allow-mixed", help="Compare runs of different conditions.")] = False,
    figures: Figures = True,
    out: Out = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare what it costs to reach an accuracy, over seeds."""
    from fluxctl.analyses.arrivals import step_memory_by_label
    from fluxctl.analyses.energy import PowerModel
    from fluxctl.analyses.to_target import to_target as analyse
    from fluxctl.telemetry.series import read_series

    talk: Talk = ctx.obj
    level = _accuracy(target)
    folder = runs_dir(runs_folder, os.environ)
    infos = [find_run(word, folder) for word in runs] if runs else newest_launch(folder)
    series = [read_series(info.folder.path) for info in infos]
    sizes = None
    if memory:
        sizes = step_memory_by_label(series, lambda path: step_memory(RunModel(RunFolder(path), talk), talk.say))
    power = PowerModel(compute_watts, radio_watts)
    analysis = analyse(series, level, power, sizes, allow_mixed=allow_mixed)
    place = (out or infos[-1].folder.path / "figures") if figures else None
    raise typer.Exit(show(analysis, talk, as_json=as_json, figures=place))


def _accuracy(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"'{text}' is no accuracy", where=f"--target {text}", hint="a number such as 0.75, or auto"
        ) from None
