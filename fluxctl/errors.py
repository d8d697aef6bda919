"""The errors that reach a user, and the exit codes that go with them.

Every expected failure is a :class:`FluxError`: one clear message, where it happened, and a hint that says what to do.
``cli.main`` is the one place that turns them into text and an exit code. Anything else that escapes is a bug in fluxctl
and ends with :data:`ExitCode.BUG`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """What a process of fluxctl says when it ends; the meanings are a public contract (``docs/exit-codes.md``)."""

    OK = 0
    ANSWER_IS_NO = 1
    CHANGE_REQUEST = 2
    RUN_BROKE = 3
    BUG = 4
    NOTHING_TO_DO = 5
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


def os_reason(error: OSError) -> str:
    """Why the system refused, as the end of a sentence: ``no space left on device``."""
    return (error.strerror or str(error)).lower()


class FluxError(Exception):
    """An expected failure, told in one paragraph.

    Args:
        message: What is wrong, one sentence, no trailing period needed.
        hint: What to do about it; None when the message says it all.
        where: ``file:line:col``, a flag or a run id; None when there is no place.
        snippet: Source lines with a caret, already formatted; shown under ``where``.
    """

    code = "error"
    exit_code = ExitCode.CHANGE_REQUEST

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, snippet: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.snippet = snippet


class ConfigError(FluxError):
    """The request does not make sense: unknown key, wrong type, impossible combination."""

    code = "config"


class ConfigProblemsError(ConfigError):
    """Several problems of one request, in the order of their positions; the first speaks for all of them."""

    MOST = 10  # more than this helps nobody

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        first = problems[0]
        super().__init__(first.message, hint=first.hint, where=first.where, snippet=first.snippet)
        self.problems = tuple(problems[: self.MOST])
        self.num_problems = len(problems)

    @classmethod
    def of(cls, problems: Iterable[ConfigError]) -> ConfigError:
        """The error for these problems: the problem itself when there is only one."""
        listed = list(problems)
        return listed[0] if len(listed) == 1 else cls(listed)


class UnknownNameError(FluxError):
    """A preset, policy, run or file that does not exist."""

    code = "unknown_name"


class AssetError(FluxError):
    """Model or data files that are missing, damaged or not the pinned ones."""

    code = "asset"


class NothingToDoError(FluxError):
    """There is no run, pair or event to work on."""

    code = "nothing_to_do"
    exit_code = ExitCode.NOTHING_TO_DO


class RunBrokeError(FluxError):
    """A run ended without a result: trainer died, deadlock, crash, timeout."""

    code = "run_broke"
    exit_code = ExitCode.RUN_BROKE


class InvariantError(RuntimeError):
    """Code of fluxctl broke one of its own rules. A bug, never a user's mistake."""
