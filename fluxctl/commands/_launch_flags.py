"""What the flags of ``launch`` mean."""

from __future__ import annotations

from enum import StrEnum

from fluxctl.commands._options import seconds
from fluxctl.commands._talk import Talk
from fluxctl.config.durations import show_duration
from fluxctl.config.override import Override, from_flag
from fluxctl.config.tree import Plain
from fluxctl.errors import ConfigError
from fluxctl.types import Mode


class ModeChoice(StrEnum):
    """Which clocks to run on."""

    REAL = "real"
    SIM = "sim"
    BOTH = "both"


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def flags_of(given: dict[str, tuple[str, Plain]]) -> list[Override]:
    """The overrides that flags mean; flag -> (path, value), a value of None being no flag."""
    return [from_flag(flag, path, value) for flag, (path, value) in given.items() if value is not None]


def partition_flags(text: str | None) -> dict[str, tuple[str, Plain]]:
    """``--partition METHOD`` or ``METHOD:ALPHA``, as flags with their paths and values.

    Raises:
        ConfigError: If alpha is not a number.
    """
    if text is None:
        return {}
    method, colon, alpha = text.partition(":")
    parts: dict[str, tuple[str, Plain]] = {"--partition": ("partition.method", method)}
    if colon:
        try:
            parts["--partition alpha"] = ("partition.alpha", float(alpha))
        except ValueError:
            hint = "for example --partition dirichlet:0.1"
            raise ConfigError(f"'{alpha}' is not a number", where=f"--partition {text}", hint=hint) from None
    return parts


def modes_of(mode: ModeChoice | None) -> tuple[Mode, ...]:
    """The modes to run; empty = as configured."""
    if mode is None:
        return ()
    return (Mode.SIM, Mode.REAL) if mode is ModeChoice.BOTH else (Mode(mode.value),)


def told_seconds(text: str | None, flag: str, talk: Talk) -> float | None:
    """Read a duration and say what was understood."""
    if text is None:
        return None
    value = seconds(text, flag)
    talk.say(f"{flag} {text} is {show_duration(value)} of engine time", verbosity=0)
    return value
