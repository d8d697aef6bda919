"""What a rung is and what it says.

A rung is one pure function over two observed runs. It returns what it measured and whether that is good enough; how
hard a failure counts is the ladder's business, from the rung's tier and the options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from fluxctl.types import JSON

if TYPE_CHECKING:
    from fluxctl.parity.observed import Observed

MIN_SAMPLES: Final = 20  # per side, for a test of distributions


class Status(StrEnum):
    """The answer of one rung."""

    PASS = "PASS"
    FAIL = "FAIL"
    WARN = "WARN"
    SKIP = "SKIP"
    INCONCLUSIVE = "INCONCLUSIVE"
    LOW_CONF = "LOW_CONF"


class Tier(StrEnum):
    """How hard a rung is meant.

    INV: an invariant that must hold in each run. EXACT: equal, or within the stated relative bound. DIST: distributions
    agree. DIAG: reported, at most a warning.
    """

    INV = "INV"
    EXACT = "EXACT"
    DIST = "DIST"
    DIAG = "DIAG"


class Role(StrEnum):
    """What a rung looks at: an input of the runs, how they work, what comes out, or something to read only."""

    CONTROL = "control"
    MECHANISM = "mechanism"
    EMERGENT = "emergent"
    DIAGNOSTIC = "diagnostic"


class Cause(StrEnum):
    """Whether a failed rung has a failed ancestor."""

    ROOT = "root"
    DOWNSTREAM = "downstream"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked of a comparison.

    Attributes:
        max_bin: Look at the first bins only: commits 1 to this number; None = all.
        lenient: Failures of DIST rungs are warnings, and so are clocks that may only be noisy.
        strict: Failures of DIAG rungs count.
        strip_time: Logical parity: leave out what depends on clocks.
        is_deterministic: Gated rungs are enforced: both runs decide by keyed streams over equal inputs. The ladder
            sets it.
        noise: Differences between real runs, by rung id, in the unit of the rung's value; empty = not measured.
    """

    max_bin: int | None = None
    lenient: bool = False
    strict: bool = False
    strip_time: bool = False
    is_deterministic: bool = True
    noise: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rung measured.

    Attributes:
        status: PASS, FAIL, WARN, INCONCLUSIVE or LOW_CONF; SKIP with a reason that is not an absent field.
        value: The number that was judged; None if there is none.
        threshold: What it was held against, as text: ``<= 0.2``.
        n: Samples on the smaller side; None where the word makes no sense.
        message: One line for a person: what was compared and what came out.
        detail: More numbers, for ``--json`` and the report: effect sizes, p-values, first difference.
        limit: What ``value`` may be at most; told by clock rungs, which weigh it against the noise floor.
    """

    status: Status
    value: float | None
    threshold: str
    n: int | None
    message: str
    detail: Mapping[str, JSON] = field(default_factory=dict)
    limit: float | None = None


RungFunction = Callable[["Observed", "Observed", Options], Finding]


@dataclass(frozen=True, slots=True)
class Rung:
    """One registered check.

    Attributes:
        id: ``D34``, or ``model_checksum``.
        short: Public short name: ``R1``; equal to ``name`` where there is none.
        name: ``inflight_overlap``.
        stage: ``0`` to ``9``, with ``3p``, ``6p``, ``7p`` for the primed ones.
        tier: How hard it is meant.
        role: What it looks at.
        question: What it asks, in one plain sentence; shown by ``--list`` and in the docs.
        broken: What a failure means for somebody who trusted the simulation, in one plain sentence.
        needs: Ids of the rungs that it depends on.
        is_gated: Enforced only where both runs are deterministic; otherwise its failure is a warning.
        is_timed: Depends on a clock; left out by ``--strip-time``.
        is_clock_rung: Its failure must also exceed twice the noise floor (D0g).
        check: The function.
    """

    id: str
    short: str
    name: str
    stage: str
    tier: Tier
    role: Role
    question: str
    broken: str
    needs: tuple[str, ...]
    is_gated: bool
    is_timed: bool
    is_clock_rung: bool
    check: RungFunction


@dataclass(frozen=True, slots=True)
class RungResult:
    """A rung's finding and what it means for the pair.

    Attributes:
        rung: The check.
        finding: What it measured; its status is final: gates, tiers and options are applied.
        cause: Of a failure: its root, or downstream of another; None for the others.
    """

    rung: Rung
    finding: Finding
    cause: Cause | None = None
