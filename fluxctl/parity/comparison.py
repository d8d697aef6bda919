"""One pair, compared: the ladder with the admission of the real runs, and what it all says in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fluxctl.errors import ConfigError, os_reason
from fluxctl.parity.admission import Admission, admit
from fluxctl.parity.ladder import Ladder, PairVerdict, climb
from fluxctl.parity.noise import read_noise
from fluxctl.parity.observed import Observed
from fluxctl.parity.reading import observe
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Cause, Options, Rung, RungResult, Status
from fluxctl.parity.sides import Pair
from fluxctl.parity.sketch import Sketch, sketch
from fluxctl.runs.files import write_json
from fluxctl.telemetry.diff import plain_json
from fluxctl.types import JSON, Mode


@dataclass(frozen=True)
class Comparison:
    """What a pair says.

    Attributes:
        pair: Who was compared.
        ladder: All rungs.
        admissions: Of each real run, whether it may stand for reality.
        notes: What a reader should know besides: damaged lines, unread configurations, runs that were stopped.
        sketch: Both runs in outline.
    """

    pair: Pair
    ladder: Ladder
    admissions: tuple[Admission, ...]
    notes: tuple[str, ...]
    sketch: Sketch

    @property
    def verdict(self) -> PairVerdict:
        """FAIL if a real run is inadmissible, else what the ladder says."""
        if not all(admission.is_admissible for admission in self.admissions):
            return PairVerdict.FAIL
        return self.ladder.verdict

    def headline(self) -> str:
        """The answer in one plain sentence."""
        is_twin = self.pair.left.mode is not self.pair.right.mode
        counts, bins = self.ladder.counts, f"{self.ladder.num_units:,} bins"
        if any(not admission.is_admissible for admission in self.admissions):
            return "The real run broke its own rules, so nothing can be said about the simulation."
        if self.verdict is PairVerdict.PASS:
            num_good = counts[Status.PASS] + counts[Status.LOW_CONF]
            return f"{self._claim(is_twin)}: {num_good} rungs agree over {bins}, none fails."
        if self.verdict is PairVerdict.INCONCLUSIVE:
            what = "whether the simulation can be trusted" if is_twin else "whether the runs agree"
            return f"It cannot be said {what}: {self._open()}."
        subject = "The simulation cannot be trusted" if is_twin else "The runs differ"
        causes = "one cause" if len(self.ladder.roots) == 1 else f"{len(self.ladder.roots)} causes"
        rungs = "1 rung fails" if counts[Status.FAIL] == 1 else f"{counts[Status.FAIL]} rungs fail"
        return f"{subject}: {rungs} over {bins}, from {causes}."

    def _claim(self, is_twin: bool) -> str:
        """What a pass amounts to: trust takes the whole ladder."""
        if len(self.ladder.results) < len(all_rungs()):
            return "The runs agree where they were compared"
        if self.ladder.options.strip_time:
            return "The runs decide the same, clocks left out"
        return "The simulation can be trusted" if is_twin else "The runs agree"

    def _open(self) -> str:
        names = [result.rung.short for result in self.ladder.results if result.finding.status is Status.INCONCLUSIVE]
        return f"{', '.join(names)} could not be judged" if names else "no rung could be judged"

    def causes(self) -> list[str]:
        """Each root cause in plain words, lowest stage first."""
        told = [
            f"{admission.label} run: {check.message}" for admission in self.admissions for check in admission.broken
        ]
        for root in self.ladder.roots:
            num = len(self.ladder.downstream_of(root))
            follows = "" if not num else f" {num} other failure{'s follow' if num > 1 else ' follows'} from it."
            told.append(f"{root.rung.broken} [{title_of(root.rung)}: {root.finding.message}]{follows}")
        return told

    def to_json(self) -> dict[str, JSON]:
        """Everything but the sketch as JSON."""
        ladder = self.ladder
        return {
            **self.pair.to_json(),
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "causes": self.causes(),
            "counts": {status.value: num for status, num in ladder.counts.items()},
            "num_units": ladder.num_units,
            "determinism": {"is_enforced": ladder.determinism.is_enforced, "reason": ladder.determinism.reason},
            "arrivals": [arrivals.to_json() for arrivals in ladder.arrivals],
            "admissions": [admission.to_json() for admission in self.admissions],
            "notes": list(self.notes),
            "rungs": [rung_json(result, ladder.options.noise) for result in ladder.results],
        }


def compare(pair: Pair, options: Options, rungs: Sequence[Rung], runs_folder: Path) -> Comparison:
    """Read a pair and climb the ladder.

    Args:
        pair: Who to compare.
        options: What was asked; the noise floor is looked up here.
        rungs: Which rungs.
        runs_folder: Where runs live, and with them the noise floors.

    Raises:
        NothingToDoError: If a run has no events, or no committed bin.
        ConfigError: If a run cannot be read, or they are not of one configuration.
    """
    left, right = observe(pair)
    options = replace(options, noise=read_noise(runs_folder, fingerprint_of(pair)))
    return Comparison(
        pair,
        climb(left, right, options, rungs),
        tuple(admit(run) for run in (left, right) if run.is_real),
        _notes(pair, left, right),
        sketch(left, right),
    )


def fingerprint_of(pair: Pair) -> str:
    """Run fingerprint of a pair; empty for bare event files."""
    info = pair.left.info
    return "" if info is None else info.record.fingerprints.get("run", "")


def title_of(rung: Rung) -> str:
    """``K3 per_round_advance``, or the name alone where that is the short name."""
    return rung.name if rung.short == rung.name else f"{rung.short} {rung.name}"


def rung_json(result: RungResult, noise: Mapping[str, float]) -> dict[str, JSON]:
    """A rung as JSON; the names of the fields are public."""
    rung, finding = result.rung, result.finding
    return {
        "id": rung.id,
        "short": rung.short,
        "name": rung.name,
        "stage": rung.stage,
        "tier": rung.tier.value,
        "role": rung.role.value,
        "status": finding.status.value,
        "value": _finite(finding.value),
        "threshold": finding.threshold,
        "noise": noise.get(rung.id),
        "n": finding.n,
        "cause": None if result.cause is None else result.cause.value,
        "message": finding.message,
        "broken": rung.broken if result.cause is Cause.ROOT else None,
        "detail": plain_json(finding.detail),
    }


def save(comparison: Comparison) -> Path | None:
    """Write the result into the left run's directory, for others to read.

    Returns:
        The file; None for a bare event file.

    Raises:
        ConfigError: If it cannot be written.
    """
    folder = comparison.pair.left.folder
    if folder is None:
        return None
    path = folder.path / "parity" / f"{comparison.pair.right.id}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"schema_version": 1, **comparison.to_json()})
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"cannot write the result: {reason}", where=str(path)) from None
    return path


def _notes(pair: Pair, left: Observed, right: Observed) -> tuple[str, ...]:
    notes = []
    for side, run in ((pair.left, left), (pair.right, right)):
        if run.columns.problems:
            first = run.columns.problems[0]
            notes.append(
                f"{run.label} run: {len(run.columns.problems)} damaged lines, the first is line {first.line}:"
                f" {first.message}"
            )
        if run.config is None:
            notes.append(f"{run.label} run: no configuration could be read, so what it says on limits is not checked")
        verdict = None if side.info is None else side.info.verdict
        if verdict is not None and verdict.launch_code and run.mode is Mode.SIM:
            notes.append(f"{run.label} run: it ended {verdict.verdict.value}: {verdict.reason}")
    if pair.num_others:
        notes.append(f"{pair.num_others} more pairs of this launch are not compared; name their runs to see them")
    return tuple(notes)


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None
