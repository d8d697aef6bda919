"""What ties an engine process to whoever looks after it: wishes to end, and signs of life."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import Final

from fluxctl import wall
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.process import SUPERVISED
from fluxctl.runs.wishes import StopWish, read_wish
from fluxctl.types import Ns

LIFE_EVERY_S: Final = 1.0


class Lifeline:
    """Looks for reasons to end, and shows that work goes on.

    Args:
        folder: The run directory.
        is_supervised: Whether the end of standard input means that the supervisor is gone; None = as the environment
            says.
    """

    def __init__(self, folder: RunFolder, *, is_supervised: bool | None = None) -> None:
        self._folder = folder
        self._is_supervised = os.environ.get(SUPERVISED) == "1" if is_supervised is None else is_supervised
        self._t: Ns | None = None  # engine time and wall second of the last sign of life
        self._shown_s = -LIFE_EVERY_S

    def wish(self) -> StopWish | None:
        """Why the run should end: a stop file, a dead supervisor, a folder that is gone; None if it need not."""
        wish = read_wish(self._folder)
        if wish is not None:
            return wish
        if self._is_supervised and _has_ended(sys.stdin.fileno()):
            self._is_supervised = False  # once is enough
            return StopWish("the supervisor is gone")
        return None if self._folder.path.is_dir() else StopWish("the run's folder is gone")

    def show(self, t: Ns | None) -> None:
        """Touch ``wall.jsonl`` if work goes on, so that a run that hangs can be told from a slow one.

        The thread that calls this lives on whatever the others do; the engine's clock shows their work, since the
        virtual one stands still while a step or an evaluation computes.

        Args:
            t: Engine time.
        """
        now_s = wall.monotonic_s()
        if t != self._t and now_s - self._shown_s >= LIFE_EVERY_S:
            self._t, self._shown_s = t, now_s
            with contextlib.suppress(OSError):
                os.utime(self._folder.wall_events)


def _has_ended(stream: int) -> bool:
    """Whether a pipe has no writer any more; what was written to it is discarded."""
    while select.select([stream], [], [], 0)[0]:
        if not os.read(stream, 1 << 16):
            return True
    return False
