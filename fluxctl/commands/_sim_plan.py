"""``fluxctl sim plan``: the course of runs without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from fluxctl.commands._options import LIMITS, ConfigFile, JsonFlag, Only, RunSetName, Sets, seconds
from fluxctl.commands._render import Column, duration, megabytes, number, print_grid
from fluxctl.commands._request import PlannedRun, make_plan
from fluxctl.commands._sim_csv import write_csv
from fluxctl.commands._sim_options import (
    Clients,
    Concurrency,
    CsvFile,
    Data,
    Goal,
    MaxBins,
    MaxRuntime,
    Model,
    Seed,
    Trace,
    shared_flags,
    sim_request,
    writable,
)
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import ExitCode
from fluxctl.types import JSON, Verdict

if TYPE_CHECKING:
    from fluxctl.whatif.plan import Forecast, Spread

_PER_HOUR: Final = ("cycles", "bins", "updates", "abandons", "withheld", "bytes_down", "bytes_up")


def plan(
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
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Look so far, whatever the limits say, e.g. 6d.", rich_help_panel=LIMITS),
    ] = None,
    cycles_per_bin: Annotated[
        int | None, typer.Option(min=1, help="Cycles of a bin; 15, as gates usually take, by default.")
    ] = None,
    max_updates: Annotated[
        int, typer.Option(min=100, help="Updates to walk through; longer runs are sampled.")
    ] = 20_000,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs to plan at a time; as many as there are cores by default.")
    ] = None,
    csv: CsvFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what runs would do, without training: commits per hour, who is there, bytes, memory."""
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
    until_s = None if until is None else seconds(until, "--until")
    runs = make_plan(sim_request(run_set, only, file, sets, flags)).runs
    writable(csv, "--csv")

    from fluxctl.engine.featurise import num_cores  # the engine; help needs none of it
    from fluxctl.runs.forked import map_forked
    from fluxctl.whatif.plan import COUNTED, Wishes, forecast

    wishes = Wishes(until_s, cycles_per_bin, max_updates)
    talk.say(f"planning {', '.join(run.config.label for run in runs)}", verbosity=1)
    found = map_forked(partial(forecast, wishes=wishes), [run.config for run in runs], jobs or num_cores())
    if csv is not None:
        fields = ("baseline", "t_s", "reachable", "believed", *COUNTED)
        labelled = zip(runs, found, strict=True)
        write_csv(csv, fields, [{"baseline": run.config.label, **row} for run, item in labelled for row in item.rows])
    is_starved = any(item.verdict is Verdict.STARVED for item in found)
    if as_json:
        rows = [_json(run, item) for run, item in zip(runs, found, strict=True)]
        talk.envelope("sim plan", "no" if is_starved else "ok", {"plans": rows})
    else:
        _print(talk.out(), runs, found)
    raise typer.Exit(int(ExitCode.ANSWER_IS_NO if is_starved else ExitCode.OK))


def _json(run: PlannedRun, found: Forecast) -> dict[str, JSON]:
    return {
        "baseline": run.config.baseline,
        "variant": run.config.variant,
        "seed": run.config.seed,
        "trace": run.config.availability.trace,
        **asdict(found),
        "verdict": found.verdict.value,
        "per_hour": {what: found.per_hour(what) for what in _PER_HOUR},
    }


def _print(console: Console, runs: Sequence[PlannedRun], found: Sequence[Forecast]) -> None:
    def per_hour(title: str, what: str) -> Column:
        return Column(title, [number(item.per_hour(what), ",.1f") for item in found], True)

    columns = [
        Column("baseline", [run.config.label for run in runs]),
        Column("ends", [item.verdict.value for item in found]),
        Column("engine time", [duration(item.engine_s) for item in found], True),
        per_hour("cycles/h", "cycles"),
        per_hour("bins/h", "bins"),
        per_hour("updates/h", "updates"),
        Column("bins", [number(item.totals["bins"]) for item in found], True),
        Column("in flight", [_spread(item.in_flight) for item in found], True),
        Column("reachable", [_spread(item.reachable) for item in found], True),
        Column("fewer than K", [f"{item.share_below_goal:.1%}" for item in found], True),
        per_hour("abandoned/h", "abandons"),
        per_hour("withheld/h", "withheld"),
        Column("MB down/h", [megabytes(item.per_hour("bytes_down")) for item in found], True),
        Column("MB up/h", [megabytes(item.per_hour("bytes_up")) for item in found], True),
        Column("memory MB", [megabytes(sum(item.memory.values())) for item in found], True),
    ]
    print_grid(console, columns)
    for run, item in zip(runs, found, strict=True):
        how = "sampled, so these are estimates" if item.is_sampled else "walked through whole"
        assumed = f"{item.cycles_per_bin} cycles per bin" + (" assumed" if run.config.gate.enabled else "")
        line = f"{run.config.label}: {item.verdict.value}: {item.reason} ({how}; {assumed})"
        console.print(plain_text(line), soft_wrap=True)


def _spread(item: Spread) -> str:
    return f"{item.mean:.1f} ({item.p5:g} to {item.p95:g})"
