"""Options that several verbs share, and the small languages in which some of them are written."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from fluxctl.errors import ConfigError

CONDITION: Final = "Condition"
LIMITS: Final = "Limits"
OUTPUT: Final = "Output"

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
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
ConfigFile = Annotated[
    Path | None,
    typer.Option("--file", metavar="CONFIG", help="A YAML file with a part of a configuration, over the run set."),
]

_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0, "ms": 0.001}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[dhms])", re.IGNORECASE)
_MAX_SEEDS: Final = 1000


def seconds(text: str, flag: str) -> float:
    """Read a duration: ``48h``, ``90s``, ``1d2h``, ``1.5h``, or plain seconds.

    Raises:
        ConfigError: If it is nothing of that kind.
    """
    compact = text.strip().lower()
    try:
        value = float(compact)
    except ValueError:
        parts = _SPAN.findall(compact)
        if not parts or _SPAN.sub("", compact).strip():
            raise ConfigError(
                f"'{text}' is not a duration", where=f"{flag} {text}", hint="for example 48h, 90s, 1d2h or 3600"
            ) from None
        value = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not math.isfinite(value):
        raise ConfigError(f"'{text}' is not a duration", where=f"{flag} {text}", hint="for example 48h")
    return value


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
