"""Whether runs may share a figure: they must have been made under one condition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from fluxctl.config.fingerprint import condition_differences
from fluxctl.config.saved import scalar
from fluxctl.errors import ConfigError
from fluxctl.telemetry.run_facts import RunFacts
from fluxctl.telemetry.series import RunSeries
from fluxctl.types import JSON

_MOST: Final = 6  # differences that are shown
_LONGEST: Final = 60


def refuse_mixed(runs: Sequence[RunFacts]) -> None:
    """Make sure that runs may share a figure; runs that do not say their condition are given the benefit of the doubt.

    Raises:
        ConfigError: If conditions differ; says in what.
    """
    pair = _odd_pair(runs)
    if pair is not None:
        left, right = pair
        raise ConfigError(
            f"{left.id} and {right.id} were made under different conditions: {_told(left, right)}",
            hint="choose runs of one condition, or show them together with --allow-mixed",
        )


def by_condition(runs: Sequence[RunSeries]) -> list[list[RunSeries]]:
    """Runs that may share a figure, in order of appearance; those that do not say their condition join the first."""
    known = list(dict.fromkeys(run.facts.condition for run in runs if run.facts.condition)) or [""]
    return [[run for run in runs if (run.facts.condition or known[0]) == condition] for condition in known]


def mixed_warning(runs: Sequence[RunFacts]) -> str:
    """What figures of mixed conditions must say; empty if they are not mixed."""
    pair = _odd_pair(runs)
    return "" if pair is None else f"These runs were made under different conditions: {_told(*pair)}."


def _odd_pair(runs: Sequence[RunFacts]) -> tuple[RunFacts, RunFacts] | None:
    """The first known run and the first that differs from it."""
    known = [run for run in runs if run.condition]
    odd = next((run for run in known if run.condition != known[0].condition), None)
    return None if odd is None else (known[0], odd)


def _told(left: RunFacts, right: RunFacts) -> str:
    if left.config is None or right.config is None:
        return f"fingerprints {left.condition} and {right.condition}"
    found = condition_differences(left.config, right.config)
    shown = [f"{path} {_short(one)} and {_short(other)}" for path, (one, other) in islice(found.items(), _MOST)]
    more = [f"{len(found) - _MOST} more"] if len(found) > _MOST else []
    return "; ".join([*shown, *more]) or f"fingerprints {left.condition} and {right.condition}"


def _short(value: JSON) -> str:
    text = scalar(value)  # type: ignore[arg-type]  # what a configuration holds is plain
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
