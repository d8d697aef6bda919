"""Options that the verbs under ``fluxctl sim`` share with ``launch``; the rest is reached with ``--set``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fluxctl.commands._options import CONDITION, LIMITS, OUTPUT, names, seconds
from fluxctl.commands._request import Plan, PlannedRun, Request
from fluxctl.config.override import Override, from_flag
from fluxctl.config.tree import Plain
from fluxctl.errors import ConfigError, os_reason
from fluxctl.types import Mode

Seed = Annotated[int | None, typer.Option(help="Seed of every draw.", rich_help_panel=CONDITION)]
Seeds = Annotated[str | None, typer.Option(help="Several seeds: 0..4 or 0,2,5.", rich_help_panel=CONDITION)]
Model = Annotated[str | None, typer.Option(help="minilm, tiny, or a folder.", rich_help_panel=CONDITION)]
Data = Annotated[str | None, typer.Option(help="wordnet-gloss or synthetic.", rich_help_panel=CONDITION)]
Clients = Annotated[int | None, typer.Option(help="Clients N.", rich_help_panel=CONDITION)]
Trace = Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Availability trace.", rich_help_panel=CONDITION)]
Concurrency = Annotated[int | None, typer.Option(help="Most clients in flight, C.", rich_help_panel=CONDITION)]
Goal = Annotated[
    int | None, typer.Option("--aggregation-goal", help="Updates per cycle, K.", rich_help_panel=CONDITION)
]
MaxBins = Annotated[int | None, typer.Option(help="Stop after so many bins.", rich_help_panel=LIMITS)]
MaxRuntime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Engine time, for example 48h or 1d2h.", rich_help_panel=LIMITS)
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No live progress.", rich_help_panel=OUTPUT)]
Force = Annotated[
    bool, typer.Option("--force", help="Start in spite of the gate, and record that.", rich_help_panel=OUTPUT)
]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the table there.", rich_help_panel=OUTPUT)
]


def flags_of(given: Mapping[str, tuple[str, Plain]]) -> list[Override]:
    """The overrides that flags mean; flag -> (path, value), a value of None being no flag."""
    return [from_flag(flag, path, value) for flag, (path, value) in given.items() if value is not None]


def shared_flags(
    *,
    seed: int | None,
    model: str | None,
    data: str | None,
    clients: int | None,
    trace: str | None,
    concurrency: int | None,
    goal: int | None,
    max_bins: int | None,
    max_runtime: str | None,
) -> list[Override]:
    """What the shared options say."""
    return flags_of(
        {
            "--seed": ("seed", seed),
            "--model": ("model.name", model),
            "--data": ("data.source", data),
            "--clients": ("clients.num_clients", clients),
            "--trace": ("availability.trace", trace),
            "--concurrency": ("aggregation.concurrency", concurrency),
            "--aggregation-goal": ("aggregation.goal", goal),
            "--max-bins": ("limits.max_bins", max_bins),
            "--max-runtime": (
                "limits.max_runtime_s",
                None if max_runtime is None else seconds(max_runtime, "--max-runtime"),
            ),
        }
    )


def sim_request(
    run_set: str | None,
    only: list[str] | None,
    file: Path | None,
    sets: Sequence[str] | None,
    flags: Sequence[Override],
    seeds: Sequence[int] = (),
) -> Request:
    """A request for runs on the virtual clock."""
    return Request(
        run_set=run_set,
        only=names(only),
        file=file,
        sets=sets or (),
        flags=flags,
        modes=(Mode.SIM,),
        seeds=seeds,
        environ=os.environ,
    )


def only_run(plan: Plan) -> PlannedRun:
    """The run of a plan that must have one.

    Raises:
        ConfigError: If it has several.
    """
    if len(plan.runs) == 1:
        return plan.runs[0]
    labels = list(dict.fromkeys(run.config.label for run in plan.runs))
    raise ConfigError(
        f"this would be {len(plan.runs)} runs, and only one can run here",
        hint=f"choose one with --only, of {', '.join(labels)}; or use `fluxctl launch`",
    )


def writable(path: Path | None, flag: str) -> None:
    """Make sure that a file can be written before anything is computed; an existing file keeps its content.

    Raises:
        ConfigError: If it cannot.
    """
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot write the file: {reason}", where=f"{flag} {path}", hint="choose another") from None
