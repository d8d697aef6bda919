"""A clean slate before a launch: nothing of an earlier one may still work where the new one will."""

from __future__ import annotations

from pathlib import Path

from fluxctl.commands._talk import Talk
from fluxctl.runs.strays import StraysError, await_strays, end_strays, find_strays, settle


def clean_slate(folder: Path, talk: Talk, *, cleans: bool) -> None:
    """Make sure that no engine without a supervisor works in the runs folder.

    Runs whose supervisor lives are left alone, whoever started them.

    Args:
        folder: Where runs live.
        talk: How to speak.
        cleans: Whether to end such engines; and to write down which runs have crashed without anybody noticing.

    Raises:
        StraysError: If there are some, and they may not be ended or cannot be.
    """
    strays = find_strays(folder)
    if strays and not cleans:
        talk.say(f"{len(strays)} engines have lost their supervisor; they should end within seconds")
        strays = await_strays(folder)
    if strays and cleans:
        for stray in strays:
            talk.say(f"ending process {stray.process.pid}, which works on {stray.folder.id}")
        end_strays(strays)
        strays = find_strays(folder)
    if strays:
        raise StraysError(strays, folder)
    if cleans:
        for run_id in settle(folder):
            talk.say(f"{run_id}: CRASHED, and nobody had noticed")
