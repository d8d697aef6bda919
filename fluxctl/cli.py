"""The command line: global options, lazily loaded verbs, and the one place where errors become text and exit codes.

A verb's module is imported only when it is called, so that ``--help`` and completion stay quick. Everything that leaves
the program goes through :func:`main`: an expected error is one paragraph on stderr (or the JSON envelope on stdout),
anything else is a bug and says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from fluxctl.errors import ExitCode, FluxError

# Verb -> (module, summary); a test holds the summaries to what the modules say.
VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "launch": ("fluxctl.commands.launch", "Run the baselines of a run set, each to its verdict."),
    "init": ("fluxctl.commands.init", "Write a run set to start from, with a comment at each key."),
    "doctor": ("fluxctl.commands.doctor", "Check the installation and this machine."),
    "watch": ("fluxctl.commands.watch", "Guard a run: end it when a stop rule fires."),
    "parity": ("fluxctl.commands.parity", "Compare a real run with its simulation, rung by rung."),
    "runs": ("fluxctl.commands.runs", "List runs, look at one, compare two, remove some."),
    "plot": ("fluxctl.commands.plot", "Draw figures of runs, with the numbers that they show."),
    "analyze": ("fluxctl.commands.analyze", "Ask finished runs, and get words, tables and figures."),
    "report": ("fluxctl.commands.report", "Write one page that says all about a run or a run set."),
    "export": ("fluxctl.commands.export", "Write a run's events for other tools: CSV, Parquet, TensorBoard."),
    "sim": ("fluxctl.commands.sim", "Plan runs without training, sweep settings, look at traces."),
    "config": ("fluxctl.commands.config", "Show, describe and check configurations."),
}
Color = Literal["auto", "always", "never"]
_EPILOG: Final = """Examples:

fluxctl launch --run-set main --yes

fluxctl launch --run-set smoke --mode both --only fluxtune

fluxctl runs show latest"""


class _PipeClosedError(Exception):
    """Whoever read our output has gone. Not an OSError, which typer would turn into exit code 1."""


class LazyGroup(TyperGroup):
    """A group whose verbs are placeholders for help, replaced by the real ones when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401
        """Find the verb and import its module."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in VERBS:
            command = typer.main.get_command(import_module(VERBS[name][0]).app)
            command.name = name
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Call the verb."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise _PipeClosedError from error
            raise


app = typer.Typer(
    cls=LazyGroup,
    name="fluxctl",
    help="A laboratory for federated fine-tuning of language models with forward gradients.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fluxctl {metadata.version('fluxctl')}")
        raise typer.Exit


@app.callback()
def _globals(
    ctx: typer.Context,
    color: Annotated[Color, typer.Option(help="Colour the output; auto heeds NO_COLOR.")] = "auto",
    no_color: Annotated[bool, typer.Option("--no-color", help="The same as --color never.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and results only.")] = False,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="More; -vv with tracebacks.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version
    # imported late, like the verbs
    from fluxctl.commands._talk import Talk

    ctx.obj = Talk(color="never" if no_color else color, verbosity=-1 if quiet else verbose)


def _placeholder() -> None:
    """Stands for a verb in the help of the program."""


for _name, (_, _summary) in VERBS.items():
    app.command(_name, help=_summary)(_placeholder)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; None = those of the process.

    Returns:
        The exit code; never raises, whatever goes wrong.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    _tolerate_odd_names()
    try:
        code = typer.main.get_command(app).main(args, prog_name="fluxctl", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (_PipeClosedError, BrokenPipeError):
        return _broken_pipe()
    except FluxError as error:
        _report(error, args)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except typer.Abort:
        print("nothing was started", file=sys.stderr)
        return int(ExitCode.ANSWER_IS_NO)
    except Exception as error:
        return _other(error, args)


def _other(error: Exception, args: list[str]) -> int:
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's own; it has no public name
        if type(error).__name__ != "NoArgsIsHelpError":  # that one has printed the help
            path = getattr(getattr(error, "ctx", None), "command_path", "fluxctl")
            _report(_UsageError(str(error.format_message()), hint=f"see `{path} --help`"), args)
        return int(ExitCode.CHANGE_REQUEST)
    from fluxctl.commands._talk import show_traceback

    what = f"{type(error).__name__}: {error}"
    _report(_BugError(what, hint="FLUXCTL_TRACEBACK=1 shows where"), args)
    if _wants_traceback(args):
        show_traceback(error)
    return int(ExitCode.BUG)


class _UsageError(FluxError):
    code = "usage"


class _BugError(FluxError):
    """Something that must not happen."""

    code = "bug"
    exit_code = ExitCode.BUG

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"this is a bug in fluxctl, please report it: {what}", hint=hint)


def _report(error: FluxError, args: list[str]) -> None:
    from fluxctl.commands._talk import Talk, show_traceback

    talk = Talk(color=_color_of(args))
    with contextlib.suppress(OSError):  # nobody listens
        if "--json" in args:
            verb = next((arg for arg in args if not arg.startswith("-")), "")
            talk.envelope(verb, "error", {}, error)
        else:
            talk.error(error)
        if _wants_traceback(args) and error.exit_code != ExitCode.BUG:
            show_traceback(error)


def _color_of(args: list[str]) -> Color:
    """The colour that was asked for, read from arguments that typer may have refused."""
    if "--no-color" in args:
        return "never"
    text = " ".join(args).replace("--color=", "--color ")
    wanted: tuple[Color, ...] = ("always", "never")
    return next((color for color in wanted if f"--color {color}" in text), "auto")


def _wants_traceback(args: list[str]) -> bool:
    return os.environ.get("FLUXCTL_TRACEBACK", "0") not in ("", "0") or "-vv" in args


def _broken_pipe() -> int:
    # The interpreter flushes stdout once more at exit and must not fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(ExitCode.BROKEN_PIPE)


def _tolerate_odd_names() -> None:
    """Let file names that are no valid text be printed with escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
