"""What the questions of ``fluxctl analyze`` share: their arguments, and how one run is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fluxctl.analyses.result import Analysis
from fluxctl.commands._analyze_show import show
from fluxctl.commands._options import OUTPUT
from fluxctl.errors import NothingToDoError
from fluxctl.runs.index import RunInfo, find_run, list_runs, same_launch
from fluxctl.runs.layout import RunFolder, runs_dir
from fluxctl.telemetry.columns import AbsentField

Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.", rich_help_panel=OUTPUT)]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for figures; figures/ of the run.", rich_help_panel=OUTPUT),
]


def newest_launch(folder: Path) -> list[RunInfo]:
    """The ended runs of the newest launch, those of one mode if it made pairs: a pair says the same twice.

    Raises:
        NothingToDoError: If there are none.
    """
    infos = list_runs(folder)
    if not infos:
        raise NothingToDoError("there are no runs", where=str(folder), hint="start one with `fluxctl launch`")
    last = infos[-1]
    same_mode = [
        info for info in same_launch(last, infos) if info.record.mode is last.record.mode and info.verdict is not None
    ]
    if not same_mode:
        raise NothingToDoError("no run of the newest launch has ended", where=str(folder))
    return same_mode


def answer(
    ctx: typer.Context,
    word: str,
    runs_folder: Path | None,
    analyse: Callable[[RunFolder], Analysis],
    figures: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Ask one run, show the answer and end with its exit code."""
    info = find_run(word, runs_dir(runs_folder, os.environ))
    try:
        analysis = analyse(info.folder)
    except AbsentField as field:
        raise NothingToDoError(
            f"no event of the run carries {field.path}, which this needs",
            where=str(info.folder.events),
            hint="`fluxctl runs fields` lists what it has",
        ) from None
    place = (out or info.folder.path / "figures") if figures else None
    raise typer.Exit(show(analysis, ctx.obj, as_json=as_json, figures=place))
