"""``fluxctl sim trace``: look at availability traces, write them, and change their format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from fluxctl.commands._options import HELP, OUTPUT, JsonFlag, seconds
from fluxctl.commands._render import Column, number, print_grid
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.data.records import is_csv
from fluxctl.data.trace_presets import load_trace_spec
from fluxctl.data.traces import load_trace, read_trace, write_outages, write_trace
from fluxctl.errors import ConfigError, os_reason
from fluxctl.types import JSON, ClientId, Ns, ns_from_s
from fluxctl.world.availability import RecordedTrace, Timeline
from fluxctl.world.availability import Trace as AvailabilityTrace

if TYPE_CHECKING:
    from fluxctl.whatif.traces import TraceStats

_DEFAULT_CLIENTS: Final = 100
_SHOWN_CLIENTS: Final = 20
_LEAST_WIDTH, _MOST_WIDTH = 24, 96
_EPILOG: Final = """Examples:

fluxctl sim trace show mobiperf_2st --clients 300 --until 6d

fluxctl sim trace generate syn_20 --clients 50 --until 12h --out trace.csv

fluxctl sim trace convert trace.csv trace.jsonl"""

trace_app = typer.Typer(
    add_completion=False,
    help="Look at availability traces, write them, and change their format.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=HELP,
)
Named = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A shipped trace, or a .yaml, .csv or .jsonl file.")]
Until = Annotated[str, typer.Option(metavar="TIME", help="Span of engine time from 0.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of a generated trace.")]


class Layout(StrEnum):
    """What a line of a trace file says."""

    CHANGES = "changes"
    OUTAGES = "outages"


@trace_app.command(context_settings=HELP)
def show(
    ctx: typer.Context,
    trace: Named,
    clients: Annotated[int | None, typer.Option(min=1, help="The first so many; 100, or all of a file.")] = None,
    until: Until = "6d",
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
) -> None:
    """Measure a trace: shares, transitions, durations, clients at once; and draw it."""
    talk: Talk = ctx.obj
    span = _span(until)
    num_clients = clients or _clients_of(trace)
    loaded = load_trace(load_trace_spec(trace), seed, num_clients)

    from fluxctl.whatif.traces import PERCENTILES, SYMBOLS, timeline, trace_stats

    found = trace_stats(loaded, num_clients, span)
    if as_json:
        data: dict[str, JSON] = {"trace": trace, "seed": seed, "percentiles": list(PERCENTILES), **asdict(found)}
        talk.envelope("sim trace show", "ok", data)
        return
    console = talk.out()
    _print_stats(console, found, PERCENTILES)
    width = max(_LEAST_WIDTH, min(_MOST_WIDTH, console.width - 9))
    shown = range(min(num_clients, _SHOWN_CLIENTS))
    key = ", ".join(f"{symbol} {state.value}" for state, symbol in SYMBOLS.items())
    console.print(plain_text(f"from 0 to {until}; {key}"), soft_wrap=True)
    for client in shown:
        console.print(plain_text(f"{client:>7}  {timeline(loaded, client, span, width)}"), soft_wrap=True)
    if num_clients > len(shown):
        console.print(plain_text(f"and {num_clients - len(shown)} more clients"), soft_wrap=True)


@trace_app.command(context_settings=HELP)
def generate(
    ctx: typer.Context,
    trace: Named,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .csv or .jsonl file.", rich_help_panel=OUTPUT)],
    clients: Annotated[int, typer.Option(min=1, help="Clients to write.")] = _DEFAULT_CLIENTS,
    until: Until = "6d",
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
) -> None:
    """Write the states of clients to a file that runs can use."""
    loaded = load_trace(load_trace_spec(trace), seed, clients)
    num_lines = _write(write_trace, out, loaded, range(clients), _span(until))
    _tell(ctx.obj, "generate", out, clients, num_lines, as_json=as_json)


@trace_app.command(context_settings=HELP)
def convert(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="Changes or outages, .csv or .jsonl.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .csv or .jsonl file.")],
    layout: Annotated[Layout, typer.Option("--as", help="What a line of the result says.")] = Layout.CHANGES,
    as_json: JsonFlag = False,
) -> None:
    """Write a trace file in another format: CSV or JSON Lines, changes or outages."""
    timelines = read_trace(source)
    if target.exists() and source.samefile(target):
        raise ConfigError("the result would replace what it is read from", where=str(target), hint="choose another")
    write = write_trace if layout is Layout.CHANGES else write_outages
    num_lines = _write(write, target, RecordedTrace.of(timelines), timelines, _end(timelines))
    _tell(ctx.obj, "convert", target, len(timelines), num_lines, as_json=as_json)


def _span(until: str) -> Ns:
    span = ns_from_s(seconds(until, "--until"))
    if span < 1:
        raise ConfigError("there is no time to look at", where=f"--until {until}", hint="for example --until 6d")
    return span


def _clients_of(name: str) -> int:
    """How many clients to show: all that a file has without a gap, else a hundred."""
    spec = load_trace_spec(name)
    if spec.path is None:
        return _DEFAULT_CLIENTS
    timelines = read_trace(Path(spec.path))
    count = next((client for client in range(len(timelines)) if client not in timelines), len(timelines))
    if count == 0:
        raise ConfigError("the trace has no client 0", where=spec.path, hint="number the clients 0, 1, 2, ...")
    return count


def _end(timelines: dict[ClientId, Timeline]) -> Ns:
    return next(iter(timelines.values())).end


def _write(
    write: Callable[[Path, AvailabilityTrace, Iterable[ClientId], Ns], int],
    path: Path,
    trace: AvailabilityTrace,
    clients: Iterable[ClientId],
    until: Ns,
) -> int:
    """Write to a file beside the wanted one and put it in place when it is whole."""
    is_csv(path)
    scratch = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        try:
            num_lines = write(scratch, trace, clients, until)
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot write the trace: {reason}", where=str(path), hint="choose another file") from None
    return num_lines


def _tell(talk: Talk, verb: str, path: Path, num_clients: int, num_lines: int, *, as_json: bool) -> None:
    if as_json:
        data: dict[str, JSON] = {"file": str(path), "num_clients": num_clients, "num_lines": num_lines}
        talk.envelope(f"sim trace {verb}", "ok", data)
    else:
        talk.out().print(plain_text(f"{path}: {num_lines} lines, {num_clients} clients"), soft_wrap=True)


def _print_stats(console: Console, found: TraceStats, percentiles: tuple[int, ...]) -> None:
    states = found.states
    columns = [
        Column("state", list(states)),
        Column("share", [f"{item.share:.3f}" for item in states.values()], True),
        Column("stays", [number(item.num_stays) for item in states.values()], True),
    ]
    for index, percentile in enumerate(percentiles):
        cells = [number(item.percentiles_s[index]) if item.percentiles_s else "-" for item in states.values()]
        columns.append(Column(f"p{percentile} s", cells, True))
    print_grid(console, columns)
    mean, least, most = found.transitions
    p = found.at_once
    console.print(
        plain_text(
            f"{found.num_clients} clients over {found.until_s:g} s: {mean:.1f} transitions each ({least} to {most}); "
            f"available at once: {p[0]:.1f} (p5 {p[1]:g}, p95 {p[2]:g}, least {p[3]}, most {p[4]})"
        ),
        soft_wrap=True,
    )
