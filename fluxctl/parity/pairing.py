"""Finds what to compare: pairs of runs by what they say about themselves, never by their names.

A real and a simulated run are a pair if they are of one baseline, variant and seed and have the same run fingerprint,
which is the whole configuration without the mode and without what only the wall can notice. Where several fit, those
of one request (same pair id) go together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from fluxctl.errors import ConfigError, NothingToDoError, UnknownNameError
from fluxctl.parity.sides import Pair, Side, guarded, label_of
from fluxctl.runs.index import RunInfo, find_run, list_runs
from fluxctl.runs.layout import is_run
from fluxctl.telemetry.reader import read_header
from fluxctl.types import Mode

_LAUNCH_BOTH: Final = "make one with `fluxctl launch --run-set smoke --mode both`"


def latest_pairs(folder: Path, baselines: Sequence[str] = ()) -> list[Pair]:
    """The pairs of the newest launch that made any, one a baseline, the newest first chosen.

    Args:
        folder: Where runs live.
        baselines: Keep these baselines; with the variant, as tables show it, or without.

    Raises:
        NothingToDoError: If there is no pair.
        UnknownNameError: If no run is of a baseline that was asked for.
    """
    infos = list_runs(folder)
    if not infos:
        raise NothingToDoError("there are no runs", where=str(folder), hint=_LAUNCH_BOTH)
    _check_baselines(infos, baselines, folder)
    kept = [info for info in infos if not baselines or _is_of(info, baselines)]
    pairs = _pairs(kept)
    if not pairs:
        raise _why_no_pair(kept, folder)
    group = _group(pairs[-1])
    newest = [pair for pair in pairs if _group(pair) == group]
    by_baseline: dict[str, list[Pair]] = {}
    for pair in newest:
        by_baseline.setdefault(pair.baseline, []).append(pair)
    return [Pair(of[-1].left, of[-1].right, len(of) - 1) for of in by_baseline.values()]


def twin_pair(word: str, folder: Path) -> Pair:
    """The pair of one run that was named.

    Raises:
        NothingToDoError: If it has no twin.
        UnknownNameError: If there is no such run.
    """
    info = find_run(word, folder)
    around = info.folder.path.parent
    mine = [pair for pair in _pairs(list_runs(around)) if info.record.id in (pair.left.id, pair.right.id)]
    if not mine:
        other = Mode.SIM if info.record.mode is Mode.REAL else Mode.REAL
        raise NothingToDoError(
            f"run {info.record.id} has no {other.value} twin that has ended",
            where=str(around),
            hint=f"{_LAUNCH_BOTH}, or name both runs",
        )
    return mine[-1]


def named_pair(left: str, right: str, folder: Path) -> Pair:
    """The pair of two runs that were named; the real one is put on the left.

    Args:
        left: A word for a run (see :func:`fluxctl.runs.index.find_run`), or the path of a run's directory or of an
            event file.
        right: The same of the other.
        folder: Where runs live.

    Raises:
        UnknownNameError: If there is no such run or file.
        ConfigError: If a run has not ended, or both are one run.
    """
    sides = [_side(word, folder) for word in (left, right)]
    if os.path.realpath(sides[0].events) == os.path.realpath(sides[1].events):  # never raises, links in circles or not
        raise ConfigError("a run cannot be compared with itself", where=f"{left} {right}")
    for side in sides:
        if side.info is not None and side.info.verdict is None:
            raise ConfigError(
                f"run {side.id} has not ended", hint="wait for it, or look on with `fluxctl watch`", where=side.id
            )
    if (sides[0].mode, sides[1].mode) == (Mode.SIM, Mode.REAL):
        sides.reverse()
    return Pair(sides[0], sides[1])


def _pairs(infos: Sequence[RunInfo]) -> list[Pair]:
    """All pairs of ended runs, by the time at which their younger run was made."""
    ended = [info for info in infos if info.verdict is not None and info.folder.events.is_file()]
    sims = [info for info in ended if info.record.mode is Mode.SIM]
    found = []
    for real in ended:
        if real.record.mode is not Mode.REAL:
            continue
        twins = [sim for sim in sims if _identity(sim) == _identity(real)]
        requested = [sim for sim in twins if real.record.pair is not None and sim.record.pair == real.record.pair]
        if twins:
            found.append(Pair(_side_of(real), _side_of((requested or twins)[-1])))
    return sorted(found, key=_created)


def _identity(info: RunInfo) -> tuple[object, ...]:
    record = info.record
    return (record.baseline, record.variant, record.seed, record.fingerprints.get("run"))


def _infos(pair: Pair) -> list[RunInfo]:
    return [side.info for side in (pair.left, pair.right) if side.info is not None]


def _created(pair: Pair) -> str:
    return max(info.record.created for info in _infos(pair))


def _group(pair: Pair) -> str:
    """The launch that a pair belongs to: that of its younger run."""
    youngest = max(_infos(pair), key=lambda info: info.record.created).record
    return youngest.group or youngest.pair or youngest.id


def _is_of(info: RunInfo, baselines: Iterable[str]) -> bool:
    return any(name in (info.record.baseline, label_of(info)) for name in baselines)


def _check_baselines(infos: Sequence[RunInfo], baselines: Sequence[str], folder: Path) -> None:
    for name in baselines:
        if not any(_is_of(info, [name]) for info in infos):
            known = ", ".join(sorted({label_of(info) for info in infos}))
            raise UnknownNameError(
                f"there is no run of baseline '{name}'", where=str(folder), hint=f"baselines with runs: {known}"
            )


def _why_no_pair(infos: Sequence[RunInfo], folder: Path) -> NothingToDoError:
    running = [info.record.id for info in infos if info.verdict is None]
    modes = {info.record.mode for info in infos}
    if running:
        message, hint = f"no pair has ended yet: {running[-1]} is still running", "wait for it"
    elif len(modes) == 1:
        missing = Mode.SIM if Mode.REAL in modes else Mode.REAL
        message, hint = f"there are no {missing.value} runs to compare with", _LAUNCH_BOTH
    else:
        message, hint = "no real run has a simulated twin of the same configuration and seed", _LAUNCH_BOTH
    return NothingToDoError(message, where=str(folder), hint=hint)


def _side_of(info: RunInfo) -> Side:
    return Side(info.record.id, info.record.mode, info.folder.events, info)


def _side(word: str, folder: Path) -> Side:
    path = Path(word)
    if path.is_file():
        if is_run(path.parent) and path.name == "events.jsonl":
            return _side_of(find_run(str(path.parent.resolve()), folder))
        return _bare(path)
    if path.is_dir():
        if not is_run(path):
            raise UnknownNameError("this directory is not that of a run: it has no run.json", where=word)
        return _side_of(find_run(str(path.resolve()), folder))
    return _side_of(find_run(word, folder))


def _bare(path: Path) -> Side:
    """A side from an event file alone."""
    identity = guarded(path, lambda: read_header(path)).get("identity")
    mode = identity.get("mode") if isinstance(identity, dict) else None
    if mode not in list(Mode):
        raise ConfigError("the header does not say on which clock the run was", where=str(path))
    return Side(path.name, Mode(mode), path)
