"""Options that several verbs share, and the small languages in which some of them are written."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.config.durations import parse_duration
from fluxctl.errors import ConfigError

HELP: Final = {"help_option_names": ["-h", "--help"]}  # context settings of every verb
CONDITION: Final = "Condition"
LIMITS: Final = "Limits"
RUNNING: Final = "Running"
OUTPUT: Final = "Output"


class StallSignal(StrEnum):
    """What counts as progress."""

    ACC = "acc"
    LOSS = "loss"
    EITHER = "either"


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
RunWord = Annotated[
    str, typer.Argument(metavar="RUN", help="latest, latest~1, the beginning of an id, baseline:mode, path")
]
RunsDir = Annotated[
    Path | None,
    typer.Option(
        "--runs-dir", help="Where runs live; FLUXCTL_RUNS_DIR, else ./runs, by default.", rich_help_panel=OUTPUT
    ),
]
RunSetName = Annotated[
    str | None, typer.Option("--run-set", metavar="NAME", help="A shipped run set, or a YAML file.", show_default=False)
]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="A,B", help="Only these baselines.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Any value by its dotted path; may be repeated."),
]
StallWindow = Annotated[
    str | None,
    typer.Option(
        "--stall-window",
        metavar="TIME",
        help="End a run after so much engine time without progress; for example 2h.",
        rich_help_panel=LIMITS,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--file", metavar="CONFIG", help="A YAML file with a part of a configuration, over the run set."),
]

_MAX_SEEDS: Final = 1000


def seconds(text: str, flag: str) -> float:
    """Read the duration that a flag was given.

    Raises:
        ConfigError: If it is none.
    """
    return parse_duration(text, f"{flag} {text}")


def stall_flags(
    text: str | None, as_seconds: float | None, as_hours: float | None
) -> dict[str, tuple[str, float | None]]:
    """The stall window, from whichever of its three flags was given, as a flag with its path and value.

    Raises:
        ConfigError: If several were given, or it is no duration.
    """
    written = {
        "--stall-window": text,
        "--stall-window-s": None if as_seconds is None else f"{as_seconds}s",
        "--stall-window-h": None if as_hours is None else f"{as_hours}h",
    }
    given = {flag: value for flag, value in written.items() if value is not None}
    if len(given) > 1:
        where = " ".join(given)
        raise ConfigError("the stall window is given more than once", where=where, hint="keep one of the flags")
    return {flag: ("limits.stall_window_s", seconds(value, flag)) for flag, value in given.items()}


def seed_list(text: str) -> list[int]:
    """Read ``0..4`` or ``0,2,5`` or a mixture, in the order given, without repetitions.

    Raises:
        ConfigError: If it is nothing of that kind.
    """
    where = f"--seeds {text}"
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:\.\.(\d{1,18}))?\s*", part)
        if match is None:
            raise ConfigError(
                f"'{part}' is not a seed or a range of seeds", where=where, hint="for example 0..4 or 0,2"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ConfigError(f"'{part}' is an empty range", where=where, hint=f"did you mean '{last}..{first}'?")
        if last - first + len(seeds) >= _MAX_SEEDS:
            raise ConfigError(f"more than {_MAX_SEEDS} seeds", where=where)
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def names(given: list[str] | None) -> list[str]:
    """``--only a,b --only c`` as a list."""
    return [name.strip() for text in given or [] for name in text.split(",") if name.strip()]
