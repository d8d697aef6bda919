"""``fluxctl runs``: which runs there are, one of them closely, two against each other, and away with some."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer
from rich.console import Console

from fluxctl.commands._options import HELP, JsonFlag, RunsDir, RunWord
from fluxctl.commands._render import Column, duration, kilobytes, megabytes, number, print_grid, rate
from fluxctl.commands._runs_more import diff, fields, rm
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import NothingToDoError
from fluxctl.runs.index import RunInfo, filter_runs, find_run, list_runs, sort_runs
from fluxctl.runs.layout import runs_dir
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.types import JSON

_EPILOG: Final = """A RUN is latest, latest~1, an id or the beginning of one, a path, or baseline:mode.

Examples:

fluxctl runs list --filter mode=sim --sort -best_accuracy

fluxctl runs show latest

fluxctl runs diff fluxtune:sim fwdllm:sim

fluxctl runs fields latest --event agg_round

fluxctl runs hash fluxtune:sim"""

app = typer.Typer(
    add_completion=False,
    help="List runs, look at one, compare two, remove some.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=HELP,
)


@app.command("list", context_settings=HELP)
def list_(
    ctx: typer.Context,
    filters: Annotated[list[str] | None, typer.Option("--filter", metavar="FIELD=VALUE", help="Keep these.")] = None,
    sort: Annotated[str, typer.Option(metavar="FIELD", help="Order; -FIELD turns it.")] = "created",
    limit: Annotated[int | None, typer.Option(min=1, help="The last so many.")] = None,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """List runs, the newest last."""
    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    infos = list_runs(folder)
    if not infos:
        raise NothingToDoError("there are no runs", where=str(folder), hint="start one with `fluxctl launch`")
    kept = sort_runs(filter_runs(infos, filters or []), sort)
    shown = kept if limit is None else kept[-limit:]
    if as_json:
        rows: list[JSON] = [info.fields() for info in shown]
        talk.envelope("runs list", "ok", {"runs": rows, "num_matching": len(kept)})
        return
    if not shown:
        raise NothingToDoError("no run matches", where=" ".join(f"--filter {text}" for text in filters or []))
    _print_list(talk.out(), shown)


@app.command(context_settings=HELP)
def show(ctx: typer.Context, run: RunWord = "latest", runs_folder: RunsDir = None, as_json: JsonFlag = False) -> None:
    """Show who a run is, how it ended and what it measured."""
    talk: Talk = ctx.obj
    info = find_run(run, runs_dir(runs_folder, os.environ))
    verdict = info.verdict
    if as_json:
        data: dict[str, JSON] = {"run": info.fields(), "folder": str(info.folder.path)}
        data["verdict"] = None if verdict is None else verdict.to_json()
        talk.envelope("runs show", "ok", data)
        return
    console = talk.out()
    rows = [(name, _cell(name, value)) for name, value in info.fields().items() if value is not None]
    rows.append(("folder", str(info.folder.path)))
    if verdict is not None:
        rows.append(("reason", verdict.reason))
        rows += [(name, str(value)) for name, value in (verdict.error or {}).items() if value]
    for name, text in rows:
        console.print(plain_text(f"{name:<22} {text}"), soft_wrap=True)


@app.command(context_settings=HELP)
def path(ctx: typer.Context, run: RunWord = "latest", runs_folder: RunsDir = None, as_json: JsonFlag = False) -> None:
    """Print the directory of a run."""
    _print_value(ctx.obj, "path", str(find_run(run, runs_dir(runs_folder, os.environ)).folder.path), as_json=as_json)


@app.command("hash", context_settings=HELP)
def hash_(ctx: typer.Context, run: RunWord = "latest", runs_folder: RunsDir = None, as_json: JsonFlag = False) -> None:
    """Print the canonical hash of a run: equal for runs that decided and measured the same."""
    info = find_run(run, runs_dir(runs_folder, os.environ))
    _print_value(ctx.obj, "hash", canonical_hash(info.folder.events), as_json=as_json)


for _function in (fields, diff, rm):
    app.command(context_settings=HELP)(_function)


def _print_value(talk: Talk, name: str, value: str, *, as_json: bool) -> None:
    if as_json:
        talk.envelope(f"runs {name}", "ok", {name: value})
    else:
        talk.out().print(plain_text(value), soft_wrap=True)


def _print_list(console: Console, infos: list[RunInfo]) -> None:
    rows = [info.fields() for info in infos]
    columns = [
        Column("id", [str(row["id"]) for row in rows]),
        Column("state", [str(row["verdict"] or row["status"]) for row in rows]),
        Column("seed", [str(row["seed"]) for row in rows], True),
        Column("bins", [number(row["bins"]) for row in rows], True),
        Column("best acc", [number(row["best_accuracy"], ".3f") for row in rows], True),
        Column("engine time", [_cell("engine_s", row["engine_s"]) for row in rows], True),
        Column("wall time", [_cell("wall_s", row["wall_s"]) for row in rows], True),
        Column("condition", [str(row.get("condition_fingerprint") or "-") for row in rows]),
    ]
    print_grid(console, columns)


def _cell(name: str, value: JSON) -> str:
    if value is None:
        return "-"
    if name in ("engine_s", "wall_s") and isinstance(value, int | float):
        return duration(float(value))
    if name.endswith("memory_bytes") or name in ("bytes_down", "bytes_up"):
        return f"{kilobytes(value)} kB" if name.endswith("memory_bytes") else f"{megabytes(value)} MB"
    if name == "sim_rate":
        return rate(value)
    if name in ("best_accuracy", "final_accuracy"):
        return number(value, ".3f")
    return number(value) if isinstance(value, int) and name != "seed" else str(value)
