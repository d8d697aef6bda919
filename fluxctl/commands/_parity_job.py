"""What ``fluxctl parity`` does with pairs: compare, diff, validate, or measure the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fluxctl.commands._parity_validate import print_validation, validate
from fluxctl.commands._parity_view import print_comparisons
from fluxctl.commands._sim_check import difference_lines
from fluxctl.commands._talk import Talk, plain_text
from fluxctl.errors import ConfigError, FluxError, os_reason
from fluxctl.parity.comparison import Comparison, compare, fingerprint_of, save
from fluxctl.parity.junit import junit
from fluxctl.parity.ladder import PairVerdict
from fluxctl.parity.noise import add_noise
from fluxctl.parity.page import page
from fluxctl.parity.result import Options, Rung
from fluxctl.parity.sides import Pair, guarded
from fluxctl.runs.files import write_text
from fluxctl.telemetry.diff import Divergence, first_difference
from fluxctl.types import JSON, Mode

T = TypeVar("T")


class Job:
    """What was asked of some pairs; each method answers whether the answer is good.

    A pair that cannot be read does not keep the others from being compared: its error is told, and the answer is no.
    """

    def __init__(
        self, talk: Talk, pairs: Sequence[Pair], options: Options, rungs: Sequence[Rung], folder: Path, *, as_json: bool
    ) -> None:
        self._talk = talk
        self._pairs = pairs
        self._options = options
        self._rungs = rungs
        self._folder = folder
        self._as_json = as_json
        self._errors: list[tuple[Pair, FluxError]] = []

    def compare(self, *, shows_all: bool, saves: bool, junit_file: Path | None, html_file: Path | None) -> bool:
        """Climb the ladder and say what came out."""
        comparisons = self._each(lambda pair: compare(pair, self._options, self._rungs, self._folder))
        for path, render in ((junit_file, junit), (html_file, page)):
            if path is not None:
                _write(path, render(comparisons))
                self._talk.say(f"wrote {path}")
        if saves:
            self._save(comparisons)
        is_good = not self._errors and all(of.verdict is PairVerdict.PASS for of in comparisons)
        if self._as_json:
            self._envelope("pairs", [of.to_json() for of in comparisons], is_good=is_good)
        else:
            print_comparisons(self._talk.out(), comparisons, shows_all=shows_all)
        return is_good

    def show_differences(self) -> bool:
        """The first event in which the runs of each pair differ."""
        found = self._each(lambda pair: (pair, _difference(pair)))
        is_good = not self._errors and all(difference is None for _, difference in found)
        if self._as_json:
            self._envelope("pairs", [_difference_json(*of) for of in found], is_good=is_good)
            return is_good
        for pair, difference in found:
            lines = [f"{pair.baseline}: both runs say the same, event by event"]
            if difference is not None:
                lines = [
                    f"{pair.baseline}: the runs differ",
                    *difference_lines(difference, (pair.left.id, pair.right.id)),
                ]
            for line in lines:
                self._talk.out().print(plain_text(line), soft_wrap=True)
        return is_good

    def show_validations(self) -> bool:
        """Whether the pairs may be compared, and what they carry."""
        found = self._each(lambda pair: validate(pair, self._options, self._rungs))
        is_good = not self._errors and all(of.is_valid for of in found)
        if self._as_json:
            self._envelope("pairs", [of.to_json() for of in found], is_good=is_good)
        else:
            for of in found:
                print_validation(self._talk.out(), of)
        return is_good

    def measure_noise(self) -> bool:
        """Keep how much two real runs differ; a floor has no good or bad."""
        pair = self._pairs[0]
        if len(self._pairs) > 1 or (pair.left.mode, pair.right.mode) != (Mode.REAL, Mode.REAL):
            raise ConfigError(
                "the noise floor is measured between two real runs", hint="name both: --noise REAL1 REAL2"
            )
        fingerprint = fingerprint_of(pair)
        if not fingerprint:
            raise ConfigError("event files without a run.json have no configuration to keep a floor for")
        comparison = compare(pair, self._options, self._rungs, self._folder)
        path = guarded(self._folder, lambda: self._keep_noise(comparison, fingerprint))
        self._talk.say(f"kept the noise floor of {pair.baseline} in {path}")
        if self._as_json:
            self._envelope("pairs", [comparison.to_json()], is_good=True)
        else:
            print_comparisons(self._talk.out(), [comparison], shows_all=True)
        return True

    def _keep_noise(self, comparison: Comparison, fingerprint: str) -> Path:
        pair = comparison.pair
        return add_noise(self._folder, fingerprint, pair.baseline, (pair.left.id, pair.right.id), comparison.ladder)

    def _each(self, do: Callable[[Pair], T]) -> list[T]:
        """Do something with every pair.

        Raises:
            FluxError: If it can be done with none of them.
        """
        done = []
        for pair in self._pairs:
            try:
                done.append(do(pair))
            except FluxError as error:
                self._errors.append((pair, error))
        if not done:
            raise self._errors[0][1]
        for _, problem in self._errors:
            self._talk.error(problem)
        return done

    def _save(self, comparisons: Sequence[Comparison]) -> None:
        for comparison in comparisons:
            try:
                save(comparison)
            except ConfigError as error:  # somebody else's folder: the answer is the same
                self._talk.say(f"warning: {error.message}: {error.where}")

    def _envelope(self, name: str, rows: list[dict[str, JSON]], *, is_good: bool) -> None:
        errors: list[JSON] = [
            {**pair.to_json(), "code": error.code, "message": error.message} for pair, error in self._errors
        ]
        self._talk.envelope("parity", "ok" if is_good else "no", {name: list(rows), "errors": errors})


def _difference(pair: Pair) -> Divergence | None:
    return guarded(pair.left.events, lambda: first_difference(pair.left.events, pair.right.events))


def _difference_json(pair: Pair, found: Divergence | None) -> dict[str, JSON]:
    difference = None if found is None else found.to_json()
    return {**pair.to_json(), "equal": found is None, "difference": difference}


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise ConfigError(f"cannot write the file: {os_reason(error)}", where=str(path)) from None
