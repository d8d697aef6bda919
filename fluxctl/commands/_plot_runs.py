"""Which runs a figure shows: from words on the command line, from a manifest, or the newest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fluxctl.errors import ConfigError, FluxError, NothingToDoError
from fluxctl.plots.manifest import FigureManifest, RunQuery
from fluxctl.runs.index import RunInfo, find_run, list_runs


@dataclass(frozen=True, slots=True)
class Pick:
    """A run that was chosen.

    Attributes:
        label: What to call it; empty = the registry's name.
        info: The run.
    """

    label: str
    info: RunInfo


def pick_runs(
    words: Sequence[str], pins: Mapping[str, Sequence[str]], manifest: FigureManifest | None, folder: Path
) -> list[Pick]:
    """Find the runs of a figure.

    Args:
        words: Runs or run sets, as given.
        pins: Words for runs by label, from ``--run``; they replace a manifest's labels of the same name.
        manifest: What ``--figs`` says.
        folder: Where runs live.

    Raises:
        NothingToDoError: If there are no runs.
        UnknownNameError: If a word fits none or several.
        ConfigError: If one label stands for runs of different configurations.
    """
    picks = [pick for word in words for pick in _by_word(word, folder)]
    if manifest is not None:
        picks += [
            pick
            for label, wanted in manifest.labels.items()
            for pick in _by_label(label, pins.get(label, wanted), folder, manifest.places[label])
        ]
    known = () if manifest is None else manifest.labels
    picks += [
        Pick(label, find_run(word, folder)) for label, given in pins.items() if label not in known for word in given
    ]
    if not picks:
        picks = _newest(_all(folder), folder)
    _check_labels(picks)
    return list({(pick.label, pick.info.record.id): pick for pick in picks}.values())


def parse_pins(given: Sequence[str]) -> dict[str, list[str]]:
    """``LABEL=RUN`` as words by label; a label may be given for several seeds.

    Raises:
        ConfigError: If one is not of that form.
    """
    pins: dict[str, list[str]] = {}
    for text in given:
        label, equals, word = text.rpartition("=")  # ids hold no equals sign, labels may
        if not equals or not label.strip() or not word.strip():
            raise ConfigError("expected LABEL=RUN", where=f"--run {text}", hint="for example --run 'R1 base=latest~3'")
        pins.setdefault(label.strip(), []).append(word.strip())
    return pins


def _by_word(word: str, folder: Path) -> list[Pick]:
    """A run, or all that the newest launch of a run set shows."""
    infos = list_runs(folder)
    if any(info.record.run_set == word for info in infos):
        return _newest([info for info in infos if info.record.run_set == word], folder)
    return [Pick("", find_run(word, folder))]


def _by_label(label: str, wanted: Sequence[str] | RunQuery, folder: Path, place: str) -> list[Pick]:
    if not isinstance(wanted, RunQuery):
        try:
            return [Pick(label, find_run(word, folder)) for word in wanted]
        except FluxError as error:
            error.where = error.where if place in (error.where or "") else place
            raise
    fits = [
        info
        for info in _all(folder)
        if (info.record.run_set, info.record.baseline, info.record.variant)
        == (wanted.run_set, wanted.baseline, wanted.variant)
        and wanted.mode in (None, info.record.mode)
    ]
    if not fits:
        what = " ".join(part for part in (wanted.run_set, wanted.baseline, wanted.variant, wanted.mode) if part)
        hint = f"make one with `fluxctl launch --run-set {wanted.run_set}`, or pin another with --run '{label}=RUN'"
        raise NothingToDoError(f"'{label}': there is no run of {what}", where=place, hint=hint)
    return [Pick(label, info) for info in _seeds_of(fits)]


def _all(folder: Path) -> list[RunInfo]:
    infos = list_runs(folder)
    if not infos:
        raise NothingToDoError("there are no runs", where=str(folder), hint="start one with `fluxctl launch`")
    return infos


def _newest(infos: Sequence[RunInfo], folder: Path) -> list[Pick]:
    """The newest run of each baseline and variant of the newest run set, with the other seeds of its launch."""
    usable = [info for info in infos if info.folder.events.is_file()]
    if not usable:
        raise NothingToDoError("no run has events yet", where=str(folder))
    run_set = usable[-1].record.run_set
    systems: dict[tuple[str, str], list[RunInfo]] = {}
    for info in usable:
        if info.record.run_set == run_set:
            systems.setdefault((info.record.baseline, info.record.variant), []).append(info)
    return [Pick("", info) for fits in systems.values() for info in _seeds_of(fits)]


def _seeds_of(fits: Sequence[RunInfo]) -> list[RunInfo]:
    """The newest run, and the runs that differ from it in the seed only and were launched with it."""
    newest = fits[-1].record
    seedless = newest.fingerprints.get("seedless")
    same = [
        info
        for info in fits
        if info.record.group is not None
        and (info.record.group, info.record.mode) == (newest.group, newest.mode)
        and info.record.fingerprints.get("seedless") == seedless
    ]
    by_seed = {info.record.seed: info for info in same or [fits[-1]]}
    return list(by_seed.values())


def _check_labels(picks: Sequence[Pick]) -> None:
    """One label is one line, so all that it stands for must be seeds of one thing."""
    first: dict[str, RunInfo] = {}
    for pick in picks:
        known = first.setdefault(pick.label, pick.info)
        if pick.label and known.record.fingerprints.get("seedless") != pick.info.record.fingerprints.get("seedless"):
            raise ConfigError(
                f"'{pick.label}' stands for runs of different configurations: {known.record.id}, {pick.info.record.id}",
                where=f"--run {pick.label}=...",
                hint="give each configuration a label of its own; only seeds share one",
            )
