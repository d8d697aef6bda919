"""``fluxctl parity --validate``: is the real run admissible, and do both runs carry what the rungs need?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from fluxctl.commands._render import Column, print_grid
from fluxctl.commands._talk import plain_text
from fluxctl.parity.admission import Admission, admit
from fluxctl.parity.comparison import title_of
from fluxctl.parity.ladder import climb
from fluxctl.parity.observed import WANTED, Observed
from fluxctl.parity.reading import observe
from fluxctl.parity.result import Options, Rung, RungResult, Status
from fluxctl.parity.sides import Pair
from fluxctl.types import JSON


@dataclass(frozen=True)
class Validation:
    """What can be said of a pair before it is compared.

    Attributes:
        pair: Who it is.
        admissions: Of each real run, whether it may stand for reality.
        densities: Field -> share of its events that carry it, in the left and the right run.
        policies: Kind of policy -> its name in the left and the right run.
        skipped: Rungs that have nothing to look at.
    """

    pair: Pair
    admissions: tuple[Admission, ...]
    densities: Mapping[str, tuple[float, float]]
    policies: Mapping[str, tuple[str, str]]
    skipped: tuple[RungResult, ...]

    @property
    def is_valid(self) -> bool:
        """Whether the pair may be compared."""
        agrees = all(ours == theirs for ours, theirs in self.policies.values())
        return agrees and all(admission.is_admissible for admission in self.admissions)

    def to_json(self) -> dict[str, JSON]:
        """Everything as JSON."""
        return {
            **self.pair.to_json(),
            "is_valid": self.is_valid,
            "admissions": [admission.to_json() for admission in self.admissions],
            "fields": {path: list(shares) for path, shares in self.densities.items()},
            "policies": {kind: list(names) for kind, names in self.policies.items()},
            "skipped": [{"id": of.rung.id, "name": of.rung.name, "reason": of.finding.message} for of in self.skipped],
        }


def validate(pair: Pair, options: Options, rungs: Sequence[Rung]) -> Validation:
    """Look at a pair without judging it.

    Raises:
        NothingToDoError: If a run has no events, or no committed bin.
        ConfigError: If a run cannot be read, or they are not of one configuration.
    """
    left, right = observe(pair)
    results = climb(left, right, options, rungs).results
    return Validation(
        pair,
        tuple(admit(run) for run in (left, right) if run.is_real),
        {
            f"{event}.{path}": (left[event].density(path), right[event].density(path))
            for event, fields in WANTED.items()
            for path in fields
        },
        _policies(left, right),
        tuple(result for result in results if result.finding.status is Status.SKIP),
    )


def print_validation(console: Console, validation: Validation) -> None:
    """Show it: the real run first, then policies and fields, and what will be skipped."""
    pair = validation.pair
    console.print(plain_text(f"{pair.baseline}: {pair.left.id} and {pair.right.id}", "bold"), soft_wrap=True)
    for admission in validation.admissions:
        answer = "admissible" if admission.is_admissible else "NOT admissible"
        ceiling = admission.speedup_ceiling
        told = "" if ceiling is None else f"; a simulation can be about {ceiling:.3g} times as fast"
        console.print(plain_text(f"the {admission.label} run is {answer}{told}"), soft_wrap=True)
        for check in admission.checks:
            console.print(plain_text(f"  {check.status.value:<4}  {check.name}: {check.message}"), soft_wrap=True)
    console.print()
    if validation.policies:
        rows = validation.policies
        columns = [Column("policy", list(rows))]
        columns += [Column(pair.labels[side], [names[side] for names in rows.values()]) for side in (0, 1)]
        columns.append(Column("", ["" if ours == theirs else "differ" for ours, theirs in rows.values()]))
        print_grid(console, columns, num_keys=3)
    _print_fields(console, validation)
    for result in validation.skipped:
        text = f"  SKIP  {title_of(result.rung)}: {result.finding.message}"
        console.print(plain_text(text), soft_wrap=True)
    console.print(plain_text(f"{len(validation.skipped)} rungs will be skipped"), soft_wrap=True)
    console.print()


def _print_fields(console: Console, validation: Validation) -> None:
    """Fields that not every event of both runs carries."""
    densities = validation.densities
    some = {path: shares for path, shares in densities.items() if min(shares) < 1 and max(shares) > 0}
    none = [path for path, shares in densities.items() if max(shares) == 0]
    full = len(densities) - len(some) - len(none)
    console.print(
        plain_text(f"{len(densities)} fields: {full} in every event of their kind, {len(none)} in none"), soft_wrap=True
    )
    if some:
        columns = [Column("in some events", list(some))]
        for side, label in enumerate(validation.pair.labels):
            columns.append(Column(label, [f"{shares[side]:.0%}" for shares in some.values()], True))
        print_grid(console, columns)
    if none:
        console.print(plain_text(f"in none: {', '.join(_by_event(none, densities))}"), soft_wrap=True)


def _by_event(paths: Sequence[str], known: Iterable[str]) -> list[str]:
    """Fields, or a kind of event where none of its fields was seen."""
    kinds = dict.fromkeys(path.partition(".")[0] for path in paths)
    told = []
    for kind in kinds:
        mine = [path for path in paths if path.partition(".")[0] == kind]
        is_all = len(mine) == sum(path.partition(".")[0] == kind for path in known)
        told += [f"{kind} (no such event)"] if is_all else mine
    return told


def _policies(left: Observed, right: Observed) -> dict[str, tuple[str, str]]:
    """What both runs say was in effect."""
    ours, theirs = (dict(run.columns.meta.get("policies") or {}) for run in (left, right))
    return {kind: (str(ours.get(kind)), str(theirs.get(kind))) for kind in {**ours, **theirs}}
