"""How the program speaks: results on stdout, talk on stderr, one JSON envelope.

Nothing that came from data is ever read as markup.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from rich.console import Console
from rich.text import Text

from fluxctl.errors import ConfigProblemsError, FluxError
from fluxctl.types import JSON

SCHEMA_VERSION: Final = 1


class _Console(Console):
    """A console that leaves it to the program what a closed pipe means; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Results that nobody reads end the program; talk that nobody hears does not."""
        if self.file is not sys.stderr:
            raise BrokenPipeError
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@dataclass(frozen=True, slots=True)
class Talk:
    """The user's wishes about output.

    Args:
        color: ``auto``, ``always`` or ``never``.
        verbosity: -1 quiet, 0 normal, 1 and 2 more.
    """

    color: str = "auto"
    verbosity: int = 0

    def out(self) -> Console:
        """Where results go."""
        return self._console(sys.stdout)

    def err(self) -> Console:
        """Where everything else goes."""
        return self._console(sys.stderr)

    def _console(self, stream: IO[str]) -> Console:
        # rich takes FORCE_COLOR for a terminal and then moves the cursor in files; only isatty tells
        is_terminal = stream.isatty()
        plain = self.color == "never" or (self.color == "auto" and bool(os.environ.get("NO_COLOR")))
        wants_color = self.color == "always" or (is_terminal and os.environ.get("TERM") != "dumb")
        return _Console(
            file=stream,
            force_terminal=is_terminal,
            color_system=None if plain or not wants_color else "auto" if is_terminal else "standard",
            highlight=False,
            markup=False,
            emoji=False,
        )

    def say(self, message: str, *, verbosity: int = 0) -> None:
        """Tell the user something, unless they asked for less."""
        if self.verbosity >= verbosity:
            self.err().print(plain_text(message), soft_wrap=True)

    def error(self, error: FluxError) -> None:
        """Show an error: message, place, snippet, hint."""
        console = self.err()
        problems = error.problems if isinstance(error, ConfigProblemsError) else (error,)
        for problem in problems:
            console.print(_error_text(problem), soft_wrap=True)
        if isinstance(error, ConfigProblemsError):
            left = error.num_problems - len(problems)
            more = f", {left} more not shown" if left else ""
            console.print(plain_text(f"{error.num_problems} problems{more}"), soft_wrap=True)

    def envelope(self, command: str, status: str, data: Mapping[str, JSON], error: FluxError | None = None) -> None:
        """Print the one object that every ``--json`` ends with."""
        told: dict[str, JSON] | None = None
        if error is not None:
            told = _error_json(error)
            if isinstance(error, ConfigProblemsError):
                told["problems"] = [_error_json(problem) for problem in error.problems]
        print_json(
            {"schema_version": SCHEMA_VERSION, "command": command, "status": status, "data": data, "error": told}
        )


def print_json(data: Mapping[str, JSON]) -> None:
    """Print an object on one line of stdout, RFC 8259, ASCII; flushed, because someone may follow it."""
    sys.stdout.write(json.dumps(data, allow_nan=False) + "\n")
    sys.stdout.flush()


def plain_text(text: str, style: str = "") -> Text:
    """Text from anywhere, made harmless: no markup, and control characters are spelled out."""
    return Text("".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text), style=style)


def show_traceback(error: BaseException) -> None:
    """Print where an error came from."""
    print("".join(traceback.format_exception(error)), file=sys.stderr, end="")


def _error_text(error: FluxError) -> Text:
    text = Text("error: ", style="bold red")
    text.append_text(plain_text(error.message, "not red bold"))
    if error.where:
        text.append_text(plain_text(f"\n  --> {error.where}", "not bold default"))
    if error.snippet:
        text.append_text(plain_text(f"\n{error.snippet}", "not bold default"))
    if error.hint:
        text.append_text(plain_text("\n  hint: ", "not bold cyan"))
        text.append_text(plain_text(error.hint, "not bold default"))
    return text


def _error_json(error: FluxError) -> dict[str, JSON]:
    return {"code": error.code, "message": error.message, "hint": error.hint, "where": error.where}
