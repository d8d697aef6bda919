"""A process that will be the engine of the next run: it imports while something else goes on, and waits for its turn.

At most one is kept. It holds no run and no files; its standard input ends with whoever keeps it, and so does it. One
that has died is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fluxctl.runs.layout import RunFolder
from fluxctl.runs.process import Child, spawn


class Standby:
    """Keeps one process ready; a context manager that leaves none behind.

    Args:
        command: What to start; None = nothing, so that every run starts its own process.
    """

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command
        self._child: Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def warm(self) -> None:
        """Make sure that a process gets ready, if one can be started."""
        if self._command is None or self._is_there():
            return
        self.close()
        with contextlib.suppress(OSError):  # the run that needs a process will say why there can be none
            self._child = spawn(self._command, None)

    def take(self, folder: RunFolder) -> Child | None:
        """Tell the process its run; None if there is none, and the run must start its own."""
        child = self._child
        if child is None or child.stdin is None or not self._is_there():
            return None
        try:
            child.stdin.write(json.dumps(str(folder.path)).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            return None
        self._child = None
        return child

    def close(self) -> None:
        """End the process if it was not needed."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdin is not None:
            with contextlib.suppress(OSError):
                child.stdin.close()

    def _is_there(self) -> bool:
        return self._child is not None and self._child.poll() is None
