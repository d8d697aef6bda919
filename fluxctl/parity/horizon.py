"""How far two runs are compared when it matters that one of them has done less.

Most rungs look at the bins that both runs have committed. These windows do not: they end at a time, so that a run that
committed fewer bins by then shows it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Options
from fluxctl.parity.window import Window
from fluxctl.types import NEVER, Ns, Verdict

# Ends that nobody outside the engine can bring about: budgets that are used up, and nobody left to ask.
_OWN_ENDS: Final = frozenset({Verdict.COMPLETED.value, Verdict.DID_NOT_CONVERGE.value, Verdict.STARVED.value})


def windows_at_equal_time(left: Observed, right: Observed, options: Options) -> tuple[Window, Window]:
    """Each run up to the engine time that both have reached, less its open bin; the wall-clock run first.

    Unlike with :func:`~fluxctl.parity.window.windows`, a run that has committed fewer bins by then has fewer in its
    window. A run that ran out of clients has reached any time: it has committed all that it ever will.
    """
    first, second = _in_order(left, right)
    last_ns = [run.columns.last_ns for run in (first, second)]
    reached_ns = [at for run, at in zip((first, second), last_ns, strict=True) if not _is_starved(run)]
    until_ns = min(reached_ns, default=max(last_ns))
    return _until(first, until_ns, options), _until(second, until_ns, options)


def windows_to_the_end(left: Observed, right: Observed, options: Options) -> tuple[Window, Window]:
    """Two runs to their ends if both have come to one by themselves, else up to the time that both have reached.

    So a run that somebody stopped is not blamed for it, and one that stopped where it should have gone on is.
    """
    first, second = _in_order(left, right)
    if all(run.columns.verdict.get("verdict") in _OWN_ENDS for run in (first, second)):
        return _until(first, NEVER, options), _until(second, NEVER, options)
    return windows_at_equal_time(left, right, options)


def _in_order(left: Observed, right: Observed) -> tuple[Observed, Observed]:
    return (right, left) if right.is_real and not left.is_real else (left, right)


def _is_starved(run: Observed) -> bool:
    return run.columns.verdict.get("verdict") == Verdict.STARVED.value


def _until(run: Observed, until_ns: Ns, options: Options) -> Window:
    num = int(np.count_nonzero(run.cycles.ints("t_ns")[run.is_commit] <= until_ns))
    return Window(run, num if options.max_bin is None else min(num, options.max_bin))
