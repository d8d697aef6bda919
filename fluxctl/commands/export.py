"""``fluxctl export``: a run's events for other tools."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._options import HELP, JsonFlag, RunsDir
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.runs.index import find_run
from fluxctl.runs.layout import runs_dir
from fluxctl.types import JSON

_EPILOG: Final = """A RUN is latest, latest~1, an id or the beginning of one, a path, or baseline:mode.

Examples:

fluxctl export latest --to csv

fluxctl export fluxtune:sim --to parquet --out tables

fluxctl export latest --to tensorboard && tensorboard --logdir runs/latest/export"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


class Format(StrEnum):
    """What can be written."""

    CSV = "csv"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"


@app.command(epilog=_EPILOG, context_settings=HELP)
def export(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Which run.")] = "latest",
    to: Annotated[
        Format, typer.Option("--to", help="Format; parquet and tensorboard need the extra of that name.")
    ] = Format.CSV,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder to write; export/FORMAT of the run by default.")
    ] = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a run's events for other tools: CSV, Parquet, TensorBoard."""
    talk: Talk = ctx.obj
    folder = find_run(run, runs_dir(runs_folder, os.environ)).folder
    target = folder.path / "export" / to.value if out is None else out
    files = _write(to, folder.events, target)
    if as_json:
        sizes: list[JSON] = [{"file": str(file), "bytes": file.stat().st_size} for file in files]
        talk.envelope("export", "ok", {"run": folder.id, "to": to.value, "folder": str(target), "files": sizes})
        return
    for file in files:
        talk.out().print(plain_text(str(file)), soft_wrap=True)


def _write(to: Format, events: Path, target: Path) -> list[Path]:
    match to:
        case Format.CSV:
            from fluxctl.export.csv import to_csv

            return to_csv(events, target)
        case Format.PARQUET:
            from fluxctl.export.parquet import to_parquet

            return to_parquet(events, target)
        case Format.TENSORBOARD:
            from fluxctl.export.tensorboard import to_tensorboard

            return to_tensorboard(events, target)
