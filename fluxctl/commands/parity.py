"""``fluxctl parity``: can the simulation be trusted, and if not, what broke it?"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.commands._options import HELP, OUTPUT, JsonFlag, RunsDir, names
from fluxctl.commands._parity_job import Job
from fluxctl.commands._parity_view import print_rungs
from fluxctl.commands._talk import Talk
from fluxctl.errors import ConfigError, ExitCode, UnknownNameError
from fluxctl.parity.pairing import latest_pairs, named_pair, twin_pair
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Options, Rung
from fluxctl.parity.sides import Pair
from fluxctl.runs.files import LATEST
from fluxctl.runs.layout import runs_dir
from fluxctl.types import JSON

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """A RUN is latest, latest~1, an id or the beginning of one, baseline:mode, or the path of a run or of
an event file. Without any, the newest pair of each baseline of the newest launch that made pairs is compared; with
one, that run and its twin.

Exit code 0: all pairs pass; 1: one fails, or cannot be judged; 2: the runs cannot be compared; 5: there is no pair.

Examples:

fluxctl parity latest

fluxctl parity fluxtune:real fluxtune:sim --html parity.html

fluxctl parity --diff latest latest~1

fluxctl parity --noise REAL1 REAL2"""
_WHAT: Final = "What to compare"
_JUDGE: Final = "How to judge"
_OTHER: Final = "Something else instead"


def _flag(name: str, help_text: str, panel: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=help_text, rich_help_panel=panel)
    return option


@app.command(epilog=_EPILOG, context_settings=HELP)
def parity(
    ctx: typer.Context,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A run, by convention the real one.")] = LATEST,
    right: Annotated[str | None, typer.Argument(metavar="RIGHT", help="The run to hold against it.")] = None,
    baselines: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Only these baselines.", rich_help_panel=_WHAT)
    ] = None,
    yes: Annotated[bool, _flag("--yes", "Do not ask whether the pairs found are meant.", _WHAT)] = False,
    rung: Annotated[
        list[str] | None,
        typer.Option(metavar="RUNG", help="Only these rungs, by id, short or full name.", rich_help_panel=_JUDGE),
    ] = None,
    max_bin: Annotated[
        int | None, typer.Option(min=1, help="Look at the first so many bins only.", rich_help_panel=_JUDGE)
    ] = None,
    lenient: Annotated[
        bool, _flag("--lenient", "Distributions that differ, and clocks within noise, only warn.", _JUDGE)
    ] = False,
    strict: Annotated[bool, _flag("--strict", "Diagnostics that warn are failures.", _JUDGE)] = False,
    strip_time: Annotated[bool, _flag("--strip-time", "Logical parity: leave out what clocks decide.", _JUDGE)] = False,
    list_: Annotated[bool, _flag("--list", "List the rungs.", _OTHER)] = False,
    validate_: Annotated[bool, _flag("--validate", "Check the real run, fields and policies.", _OTHER)] = False,
    diff: Annotated[bool, _flag("--diff", "Show the first event that differs.", _OTHER)] = False,
    noise: Annotated[bool, _flag("--noise", "Measure the noise floor between two real runs.", _OTHER)] = False,
    show_all: Annotated[bool, _flag("--show-all", "Tell every rung.", OUTPUT)] = False,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.", rich_help_panel=OUTPUT)] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page.", rich_help_panel=OUTPUT)] = None,
    exit_zero: Annotated[bool, _flag("--exit-zero", "Exit with 0 even if a pair fails.", OUTPUT)] = False,
    runs_folder: RunsDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare a real run with its simulation, rung by rung."""
    talk: Talk = ctx.obj
    rungs = _chosen(rung or [])
    if list_:
        _show_list(talk, rungs, as_json=as_json)
        return
    modes = {"--validate": validate_, "--diff": diff, "--noise": noise}
    if sum(modes.values()) > 1:
        given = " ".join(name for name, wanted in modes.items() if wanted)
        raise ConfigError("these exclude each other", where=given, hint="keep one of them")
    folder = runs_dir(runs_folder, os.environ)
    options = Options(max_bin=max_bin, lenient=lenient, strict=strict, strip_time=strip_time)
    pairs = _found(left, right, names(baselines), folder)
    if right is None and not yes:
        _confirm(talk, pairs)
    job = Job(talk, pairs, options, rungs, folder, as_json=as_json)
    if diff:
        is_good = job.show_differences()
    elif validate_:
        is_good = job.show_validations()
    elif noise:
        is_good = job.measure_noise()
    else:
        is_good = job.compare(shows_all=show_all, saves=not rung, junit_file=junit_file, html_file=html_file)
    raise typer.Exit(int(ExitCode.OK if is_good or exit_zero else ExitCode.ANSWER_IS_NO))


def _found(left: str, right: str | None, baselines: Sequence[str], folder: Path) -> list[Pair]:
    if right is not None:
        if baselines:
            raise ConfigError("both runs are named, so there is nothing to choose", where="--baselines")
        return [named_pair(left, right, folder)]
    if left == LATEST:
        return latest_pairs(folder, baselines)
    return [twin_pair(left, folder)]


def _confirm(talk: Talk, pairs: Sequence[Pair]) -> None:
    """Let a person at a terminal see which pairs were found; programs get what they asked for."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    for pair in pairs:
        talk.say(f"{pair.baseline}: {pair.left.id} and {pair.right.id}", verbosity=-1)
    what = "this pair" if len(pairs) == 1 else f"these {len(pairs)} pairs"
    if not typer.confirm(f"Compare {what}?", default=True, err=True):
        talk.say("nothing was compared", verbosity=-1)
        raise typer.Exit(int(ExitCode.ANSWER_IS_NO))


def _chosen(wanted: Sequence[str]) -> tuple[Rung, ...]:
    """The rungs that were asked for, by any of their names; all if none was."""
    rungs = all_rungs()
    if not wanted:
        return rungs
    by_name: dict[str, list[Rung]] = {}
    for rung in rungs:
        for name in {rung.id.lower(), rung.short.lower(), rung.name.lower()}:
            by_name.setdefault(name, []).append(rung)
    chosen = []
    for word in names(list(wanted)):
        if word.lower() not in by_name:
            close = difflib.get_close_matches(word.lower(), by_name, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "see `fluxctl parity --list`"
            raise UnknownNameError(f"there is no rung '{word}'", where=f"--rung {word}", hint=hint)
        chosen += by_name[word.lower()]
    return tuple(rung for rung in rungs if rung in chosen)


def _show_list(talk: Talk, rungs: Sequence[Rung], *, as_json: bool) -> None:
    if not as_json:
        print_rungs(talk.out(), rungs)
        return
    rows: list[JSON] = [
        {
            "id": rung.id,
            "short": rung.short,
            "name": rung.name,
            "stage": rung.stage,
            "tier": rung.tier.value,
            "role": rung.role.value,
            "needs": list(rung.needs),
            "is_gated": rung.is_gated,
            "question": rung.question,
            "broken": rung.broken,
        }
        for rung in rungs
    ]
    talk.envelope("parity", "ok", {"rungs": rows})
