"""The two sides of a comparison, before anything of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fluxctl.errors import ConfigError, os_reason
from fluxctl.runs.index import RunInfo
from fluxctl.runs.layout import RunFolder
from fluxctl.types import JSON, Mode

T = TypeVar("T")


@dataclass(frozen=True)
class Side:
    """One run of a pair, not yet read.

    Attributes:
        id: Its id, or the name of a bare event file.
        mode: Its clock.
        events: Its event file.
        info: How the run stands; None for a bare event file.
    """

    id: str
    mode: Mode
    events: Path
    info: RunInfo | None = None

    @property
    def folder(self) -> RunFolder | None:
        """Its directory; None for a bare event file."""
        return None if self.info is None else self.info.folder

    @property
    def baseline(self) -> str:
        """Baseline with its variant; empty if unknown."""
        return "" if self.info is None else label_of(self.info)


@dataclass(frozen=True)
class Pair:
    """Two runs to be compared; of a real and a simulated run the real one is on the left.

    Attributes:
        left: One run.
        right: The other.
        num_others: Pairs of the same launch and baseline that were passed over, such as those of other seeds.
    """

    left: Side
    right: Side
    num_others: int = 0

    @property
    def baseline(self) -> str:
        """What the pair is called in tables."""
        return self.left.baseline or self.right.baseline or self.left.id

    @property
    def labels(self) -> tuple[str, str]:
        """What messages call both runs."""
        if self.left.mode is self.right.mode:
            return ("left", "right")
        return (self.left.mode.value, self.right.mode.value)

    def to_json(self) -> dict[str, JSON]:
        """Who is compared."""
        return {"baseline": self.baseline, "left": self.left.id, "right": self.right.id}


def label_of(info: RunInfo) -> str:
    """Baseline with its variant."""
    return f"{info.record.baseline} {info.record.variant}".rstrip()


def guarded(path: Path, read: Callable[[], T]) -> T:
    """Read, or say that it cannot be done.

    Raises:
        ConfigError: If the system refuses to open or read the file.
    """
    try:
        return read()
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot read the event file: {reason}", where=str(path)) from None
