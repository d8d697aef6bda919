"""The stop file: how anybody who cannot signal an engine asks it to end, and as what.

Its text is a reason, for people. A reason that begins with the verdict of a stop rule (``STALLED: no progress for
2 h``) is the word of somebody who has judged the run by its rules, such as ``fluxctl watch``, and the run ends with
that verdict; any other text ends it INTERRUPTED.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fluxctl.runs.files import write_text
from fluxctl.runs.layout import RunFolder
from fluxctl.types import Verdict

# What rules say of a run; nobody can wish for a crash.
RULED: Final = (
    Verdict.COMPLETED,
    Verdict.CONVERGED,
    Verdict.DID_NOT_CONVERGE,
    Verdict.STALLED,
    Verdict.DIVERGED,
    Verdict.STARVED,
)


@dataclass(frozen=True, slots=True)
class StopWish:
    """Somebody wants a run to end.

    Args:
        reason: Why, one sentence.
        verdict: What its end shall be called; one of ``RULED``, or INTERRUPTED.
    """

    reason: str
    verdict: Verdict = Verdict.INTERRUPTED

    def write(self, folder: RunFolder) -> None:
        """Ask the run to end.

        Raises:
            OSError: If the file cannot be written.
        """
        head = f"{self.verdict.value}: " if self.verdict in RULED else ""
        write_text(folder.stop, f"{head}{self.reason}\n")


def read_wish(folder: RunFolder) -> StopWish | None:
    """The wish that a run should end; None if nobody has one."""
    try:
        text = folder.stop.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    word, colon, reason = text.partition(": ")
    if colon and word in RULED:
        return StopWish(reason, Verdict(word))
    return StopWish(text or "asked to stop")
