"""An engine process that imports what it needs before it is told which run it is for.

Imports take longer than everything else that an engine does before it trains, so a launcher keeps one such process
ready: it waits on standard input for the path of a run directory, as one line of JSON. The end of the input without a
line means that the launcher is gone, or needs nobody any more.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from fluxctl.errors import ExitCode


def serve() -> int:
    """Wait for a run and run it; returns the exit code."""
    failure = None
    try:
        from fluxctl.engine.session import main
    except Exception:  # it is told once there is a log to tell it in
        failure = traceback.format_exc()
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return int(ExitCode.OK)
    folder = json.loads(line)
    _print_to(os.path.join(folder, "run.log"))
    if failure is not None:
        print(failure, file=sys.stderr)
        return int(ExitCode.BUG)
    return main([folder])


def _print_to(path: str) -> None:
    """Let a file take what this process prints, native code and tracebacks of a crash included."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
