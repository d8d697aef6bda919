"""``fluxctl doctor``: is this installation fit to run, and what can this machine do?"""

from __future__ import annotations

import os
from typing import Final

import typer

from fluxctl.commands._doctor_checks import CHECKS, Found, State
from fluxctl.commands._options import HELP, JsonFlag, RunsDir
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import ExitCode
from fluxctl.runs.layout import runs_dir
from fluxctl.types import JSON

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_EPILOG: Final = """Exit code 0: everything that is needed is there; 1: there is a problem. What is only worth knowing
(`note`) changes nothing.

Examples:

fluxctl doctor

fluxctl doctor --json"""
_STYLES: Final = {State.OK: ("✓", "green"), State.NOTE: ("!", "yellow"), State.PROBLEM: ("✗", "bold red")}


@app.command(epilog=_EPILOG, context_settings=HELP)
def doctor(ctx: typer.Context, runs_folder: RunsDir = None, as_json: JsonFlag = False) -> None:
    """Check the installation and this machine."""
    talk: Talk = ctx.obj
    folder = runs_dir(runs_folder, os.environ)
    found = {name: check(folder) for name, check in CHECKS.items()}
    num_problems = sum(item.state is State.PROBLEM for item in found.values())
    code = ExitCode.ANSWER_IS_NO if num_problems else ExitCode.OK
    if as_json:
        checks: list[JSON] = [
            {"check": name, "status": item.state.value, "message": item.message, "hint": item.hint}
            for name, item in found.items()
        ]
        talk.envelope("doctor", "no" if num_problems else "ok", {"checks": checks, "num_problems": num_problems})
    else:
        _show(talk, found, num_problems)
    raise typer.Exit(int(code))


def _show(talk: Talk, found: dict[str, Found], num_problems: int) -> None:
    console = talk.out()
    names, states = max(map(len, found)), max(len(state) for state in State)
    for name, item in found.items():
        icon, style = _STYLES[item.state]
        line = plain_text(f"{icon} {item.state.value:<{states}}  ", style)
        line.append_text(plain_text(f"{name:<{names}}  ", "not bold default"))
        line.append_text(plain_text(item.message, "not bold default"))
        console.print(line, soft_wrap=True)
        if item.hint:
            console.print(plain_text(f"{'':{states + names + 6}}{item.hint}", "cyan"), soft_wrap=True)
    told = "no problem" if not num_problems else "1 problem" if num_problems == 1 else f"{num_problems} problems"
    talk.say(told)
