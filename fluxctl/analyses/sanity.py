"""Self-checks of a finished run: do its event file, its summary and its verdict tell one story?

A run that passes can still be a bad experiment; a run that fails must not be used for anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluxctl.analyses.reading import events_of
from fluxctl.analyses.result import Analysis, Grid, Measure, plural
from fluxctl.analyses.sanity_checks import CHECKS, WANTED, Check, Facts, SanityStatus
from fluxctl.config.load import read_config
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import AbsentField, Columns
from fluxctl.types import JSON

__all__ = ["WANTED", "SanityFinding", "SanityStatus", "check_run", "sanity"]


@dataclass(frozen=True, slots=True)
class SanityFinding:
    """The outcome of one check.

    Attributes:
        check: Its name.
        status: How it came out.
        message: What was found, one sentence with the numbers.
    """

    check: str
    status: SanityStatus
    message: str

    @property
    def is_ok(self) -> bool:
        """Whether nothing speaks against the run."""
        return self.status is not SanityStatus.FAIL

    def to_json(self) -> dict[str, JSON]:
        """The finding as JSON."""
        return {"check": self.check, "status": self.status.value, "message": self.message}


def check_run(folder: RunFolder, *, columns: Columns | None = None) -> tuple[SanityFinding, ...]:
    """Check a finished run.

    Args:
        folder: Its directory.
        columns: Its events, if they were read already with at least :data:`WANTED`; None = read them.

    Returns:
        One finding per check, in a fixed order.

    Raises:
        NothingToDoError: If it has no events.
        ConfigError: If its configuration or its event file cannot be read.
    """
    events = events_of(folder, WANTED, columns)
    facts = Facts(folder, read_config(folder.config).config, events, folder.read_verdict())
    return tuple(_judge(name, check, facts) for name, check in CHECKS.items())


def _judge(name: str, check: Check, facts: Facts) -> SanityFinding:
    try:
        return SanityFinding(name, *check(facts))
    except AbsentField as field:
        return SanityFinding(name, SanityStatus.FAIL, f"no event carries {field.path}")


def sanity(folder: RunFolder, *, columns: Columns | None = None) -> Analysis:
    """The self-checks of a run as an analysis; arguments and errors are those of :func:`check_run`."""
    findings = check_run(folder, columns=columns)
    failed = [finding.check.replace("_", " ") for finding in findings if not finding.is_ok]
    if failed:
        conclusion = f"The run must not be used: {', '.join(failed)} failed of {plural(len(findings), 'check')}."
    else:
        conclusion = f"Events, summary and verdict tell one story: {plural(len(findings), 'check')}, none failed."
    rows = tuple((finding.check.replace("_", " "), finding.status.value, finding.message) for finding in findings)
    grid = Grid("Self-checks", (Measure("check"), Measure("status"), Measure("finding")), rows)
    data: dict[str, JSON] = {"findings": [finding.to_json() for finding in findings]}
    return Analysis("sanity", folder.id, conclusion, (grid,), data, is_ok=not failed)
