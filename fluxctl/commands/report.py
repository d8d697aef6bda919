"""``fluxctl report``: one page that says all about a run or a run set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fluxctl.commands._analyze_model import RunModel
from fluxctl.commands._options import HELP, JsonFlag, RunsDir
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import ConfigError, NothingToDoError, UnknownNameError, os_reason
from fluxctl.runs.files import write_text
from fluxctl.runs.index import RunInfo, find_run, list_runs, same_launch
from fluxctl.runs.layout import RunFolder, runs_dir

if TYPE_CHECKING:
    from fluxctl.analyses.result import Analysis
    from fluxctl.report.gather import Analyse

_EPILOG: Final = """WHAT is a run (latest, latest~1, an id or the beginning of one, a path, baseline:mode), or the name
of a run set, which means all runs of its newest launch. The page needs no network.

Examples:

fluxctl report

fluxctl report main --out main.html

fluxctl report fluxtune:sim --deep"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(epilog=_EPILOG, context_settings=HELP)
def report(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A run, or a run set.")] = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write; report.html of the run, report-RUN_SET.html in the runs folder for several.",
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compute with the model: jvp, and accuracy of each client.")
    ] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Write one page that says all about a run or a run set."""
    from fluxctl.report.gather import gather
    from fluxctl.report.page import render

    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    title, infos, place = _subject(what, folder)
    target = place if out is None else out
    page = render(gather(title, infos, _deep(talk) if deep else None))
    try:
        write_text(target, page)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(
            f"cannot write the report: {reason}", where=str(target), hint="choose a file with --out"
        ) from None
    if as_json:
        runs = [info.record.id for info in infos]
        talk.envelope("report", "ok", {"html": str(target), "runs": runs, "bytes": target.stat().st_size})
    else:
        talk.out().print(plain_text(str(target)), soft_wrap=True)


def _subject(what: str, folder: Path) -> tuple[str, list[RunInfo], Path]:
    """Title, runs and default file of a report."""
    infos = list_runs(folder)
    of_set = [info for info in infos if info.record.run_set == what]
    if of_set:
        newest = of_set[-1]
        chosen = same_launch(newest, of_set)
        name = "".join(char if char.isalnum() or char in "-_." else "_" for char in what)[:80]
        return f"{what}, {newest.record.created[:16].replace('T', ' ')}", chosen, folder / f"report-{name}.html"
    try:
        info = find_run(what, folder)
    except UnknownNameError as error:
        sets = sorted({info.record.run_set for info in infos})
        raise UnknownNameError(
            f"there is no run and no run set '{what}'",
            where=str(folder),
            hint=f"{error.hint}; run sets with runs: {', '.join(sets)}" if error.hint else None,
        ) from None
    return info.record.id, [info], info.folder.path / "report.html"


def _deep(talk: Talk) -> Mapping[str, Analyse]:
    """Analyses that load the model."""
    from fluxctl.analyses.fairness import client_accuracies, fairness
    from fluxctl.analyses.jvp import jvp
    from fluxctl.telemetry.series import read_series

    models: dict[str, RunModel] = {}

    def model_of(folder: RunFolder) -> RunModel:
        return models.setdefault(folder.id, RunModel(folder, talk))

    def slopes(folder: RunFolder) -> Analysis:
        model = model_of(folder)
        return jvp(folder.id, model.config, model.task.learner, model.task.shards, model.weights())

    def accuracies(folder: RunFolder) -> Analysis:
        model, weights = model_of(folder), model_of(folder).weights()
        if weights is None:
            raise NothingToDoError("the run left no checkpoint")
        return fairness(read_series(folder.path), client_accuracies(model.task.learner, model.task.shards, weights))

    return {"jvp": slopes, "fairness": accuracies}
