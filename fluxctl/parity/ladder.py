"""Climbs the ladder: runs the rungs over a pair and says what their findings mean together.

A rung only measures. Here its finding meets its tier, the options, the determinism gate and the noise floor, failures
are sorted into causes and consequences, and the pair gets one verdict.

A clock rung that misses its limit fails only beyond twice the noise floor, the difference between two real runs (D0g).
Up to there it is INCONCLUSIVE: the wall may have been late, and the simulation right. Where nobody has measured the
floor, it is taken to be the limit itself, which is how far real runs are expected to agree. Two simulations have no
noise. An exception in a rung is a bug and is not caught. This module must not read files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from fluxctl.parity.arrivals import Arrivals, arrivals_of
from fluxctl.parity.bounds import is_within
from fluxctl.parity.determinism import Determinism, judge_determinism
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Cause, Finding, Options, Rung, RungResult, Status, Tier
from fluxctl.telemetry.columns import AbsentField

_NOISE_FACTOR: Final = 2.0  # a clock rung fails only beyond so many noise floors (D0g)
_HOW_TO_MEASURE: Final = "measure the noise floor: fluxctl parity --noise REAL REAL"


class PairVerdict(StrEnum):
    """Whether a pair agrees."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Ladder:
    """All rungs of one pair.

    Attributes:
        results: By stage and number.
        determinism: Whether gated rungs were enforced.
        arrivals: What the wall did in each real run.
        num_units: Committed bins that both runs have and that were compared.
        options: What was asked.
    """

    results: tuple[RungResult, ...]
    determinism: Determinism
    arrivals: tuple[Arrivals, ...]
    num_units: int
    options: Options

    @property
    def verdict(self) -> PairVerdict:
        """FAIL if a rung failed; INCONCLUSIVE if an invariant or exact rung could not be judged, or none could."""
        if any(result.finding.status is Status.FAIL for result in self.results):
            return PairVerdict.FAIL
        is_open = any(
            result.finding.status is Status.INCONCLUSIVE and result.rung.tier in (Tier.INV, Tier.EXACT)
            for result in self.results
        )
        judged = (Status.PASS, Status.LOW_CONF, Status.WARN)
        is_judged = any(result.finding.status in judged for result in self.results)
        return PairVerdict.INCONCLUSIVE if is_open or not is_judged else PairVerdict.PASS

    @property
    def counts(self) -> Mapping[Status, int]:
        """Rungs of each status, zeros included."""
        found = Counter(result.finding.status for result in self.results)
        return {status: found[status] for status in Status}

    @property
    def roots(self) -> tuple[RungResult, ...]:
        """Failed rungs without a failed ancestor, lowest stage first."""
        return tuple(result for result in self.results if result.cause is Cause.ROOT)

    def downstream_of(self, root: RungResult) -> tuple[RungResult, ...]:
        """Failed rungs that depend on a root, directly or not."""
        needs = _ancestors(result.rung for result in self.results)
        return tuple(
            result
            for result in self.results
            if result.cause is Cause.DOWNSTREAM and root.rung.id in needs[result.rung.id]
        )


def climb(left: Observed, right: Observed, options: Options, rungs: Sequence[Rung] | None = None) -> Ladder:
    """Run rungs over a pair.

    Args:
        left: One run, by convention the real one.
        right: The other.
        options: What was asked; ``is_deterministic`` is set here.
        rungs: Which rungs, by default all.
    """
    determinism = judge_determinism(left, right, options)
    options = replace(options, is_deterministic=determinism.is_enforced)
    chosen = all_rungs() if rungs is None else tuple(rungs)
    has_noise = left.is_real or right.is_real
    findings = {
        rung.id: _final(rung, _find(rung, left, right, options), options, determinism, has_noise=has_noise)
        for rung in chosen
    }
    failed = {rung_id for rung_id, finding in findings.items() if finding.status is Status.FAIL}
    needs = _ancestors(chosen)
    results = tuple(RungResult(rung, findings[rung.id], _cause(rung, failed, needs)) for rung in chosen)
    return Ladder(results, determinism, arrivals_of(left, right), left.num_compared(right, options.max_bin), options)


def _find(rung: Rung, left: Observed, right: Observed, options: Options) -> Finding:
    if rung.is_timed and options.strip_time:
        return Finding(Status.SKIP, None, "", None, "depends on a clock, which --strip-time leaves out")
    try:
        return rung.check(left, right, options)
    except AbsentField as absent:
        return Finding(Status.SKIP, None, "", None, f"no event carries {absent.path}")
    except Exception as error:
        error.add_note(f"in rung {rung.id} ({rung.name})")
        raise


def _final(rung: Rung, finding: Finding, options: Options, determinism: Determinism, *, has_noise: bool) -> Finding:
    """What a finding amounts to under the rung's tier and the options."""
    if rung.tier is Tier.DIAG and finding.status in (Status.FAIL, Status.WARN):
        return replace(finding, status=Status.FAIL if options.strict else Status.WARN)
    if finding.status is not Status.FAIL:
        return finding
    if rung.is_gated and not options.is_deterministic:
        return _demoted(finding, Status.WARN, f"not enforced: {determinism.reason}")
    excuse = _noise_excuse(finding, options.noise.get(rung.id)) if rung.is_clock_rung and has_noise else None
    if excuse is not None:
        return _demoted(finding, Status.WARN if options.lenient else Status.INCONCLUSIVE, excuse)
    if rung.tier is Tier.DIST and options.lenient:
        return _demoted(finding, Status.WARN, "--lenient")
    return finding


def _noise_excuse(finding: Finding, floor: float | None) -> str | None:
    """Why a clock that misses its limit may only be noisy; None if it cannot be noise."""
    assumed = finding.limit if floor is None else floor
    if finding.value is None or assumed is None or not is_within(abs(finding.value), _NOISE_FACTOR * assumed):
        return None
    if floor is None:
        return f"within twice the limit, which may be noise; {_HOW_TO_MEASURE}"
    return f"within twice the noise floor of {floor:.3g}"


def _demoted(finding: Finding, status: Status, why: str) -> Finding:
    return replace(finding, status=status, message=f"{finding.message} ({why})")


def _cause(rung: Rung, failed: set[str], needs: Mapping[str, frozenset[str]]) -> Cause | None:
    if rung.id not in failed:
        return None
    return Cause.DOWNSTREAM if needs[rung.id] & failed else Cause.ROOT


def _ancestors(rungs: Iterable[Rung]) -> dict[str, frozenset[str]]:
    """Ids of all rungs that each of these depends on, directly or not; through rungs that were not asked for, too."""
    chosen = tuple(rungs)
    direct = {rung.id: rung.needs for rung in (*all_rungs(), *chosen)}
    found: dict[str, frozenset[str]] = {}
    for rung in chosen:
        reached: set[str] = set()
        waiting = list(rung.needs)
        while waiting:
            rung_id = waiting.pop()
            if rung_id not in reached:
                reached.add(rung_id)
                waiting += direct.get(rung_id, ())
        found[rung.id] = frozenset(reached - {rung.id})
    return found
