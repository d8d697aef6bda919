"""Runs as a list, and one run by a word for it.

Reading is where a run that nobody looks after any more is found out: if its process is gone and it has no verdict, it
CRASHED, and the reader writes that down.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxctl.errors import ConfigError, ExitCode, NothingToDoError, UnknownNameError
from fluxctl.runs.files import LATEST, tail
from fluxctl.runs.layout import RunFolder, is_run, run_folders
from fluxctl.runs.records import RunRecord, VerdictRecord
from fluxctl.types import JSON, Mode, Verdict

_LATEST: Final = re.compile(rf"{LATEST}(?:~(\d+))?")


@dataclass(frozen=True)
class RunInfo:
    """A run and how it stands."""

    folder: RunFolder
    record: RunRecord
    verdict: VerdictRecord | None

    @property
    def status(self) -> str:
        """``created``, ``running`` or ``ended``."""
        return "ended" if self.verdict is not None else self.record.status

    @property
    def is_blocked(self) -> bool:
        """Whether the gate kept the run from starting, so that there is nothing but a record of that."""
        return self.verdict is not None and self.verdict.verdict is Verdict.BLOCKED

    def fields(self) -> dict[str, JSON]:
        """What can be listed, filtered and sorted."""
        record, verdict = self.record, self.verdict
        summary = {} if verdict is None else verdict.summary
        row: dict[str, JSON] = {
            "id": record.id,
            "run_set": record.run_set,
            "baseline": record.baseline,
            "variant": record.variant,
            "mode": record.mode.value,
            "seed": record.seed,
            "created": record.created,
            "status": self.status,
            "verdict": None if verdict is None else verdict.verdict.value,
            "pair": record.pair,
            "group": record.group,
        }
        row |= {name: summary.get(name) for name in SUMMARY_FIELDS}
        row |= {f"{name}_fingerprint": value for name, value in record.fingerprints.items()}
        return row


SUMMARY_FIELDS: Final = (
    "bins",
    "cycles",
    "best_accuracy",
    "final_accuracy",
    "engine_s",
    "wall_s",
    "sim_rate",
    "forward_passes",
    "bytes_down",
    "bytes_up",
    "forward_memory_bytes",
    "backprop_memory_bytes",
    "hash",
)


def read_info(folder: RunFolder) -> RunInfo | None:
    """How a run stands; None if its ``run.json`` is damaged."""
    record = folder.read_run()
    if record is None:
        return None
    verdict = folder.read_verdict()
    if verdict is None and record.status != "ended" and record.process is not None and record.process.is_gone():
        verdict = folder.read_verdict() or _write_crash(folder)  # it may have been written in the meantime
    elif verdict is None and record.status == "ended":
        verdict = _write_crash(folder)
    return RunInfo(folder, record, verdict)


def list_runs(folder: Path) -> list[RunInfo]:
    """All readable runs, oldest first."""
    infos = [info for run in run_folders(folder) if (info := read_info(run)) is not None]
    return sorted(infos, key=lambda info: (info.record.created, info.record.id))


def same_launch(run: RunInfo, among: Iterable[RunInfo]) -> list[RunInfo]:
    """The runs that were launched together with ``run``, itself included; it alone if it was launched by itself."""
    group = run.record.group
    return [info for info in among if info.record.group == group] if group else [run]


def find_run(word: str, folder: Path) -> RunInfo:
    """Find the run that a word stands for.

    Args:
        word: ``latest``, ``latest~1``, an id or the beginning of one, a path, or ``baseline:mode`` (its newest run).
            A run that the gate has blocked is only found by its id.
        folder: Where runs live.

    Raises:
        NothingToDoError: If there are no runs at all.
        UnknownNameError: If none or more than one run fits.
    """
    path = Path(word)
    if (os.sep in word or path.is_absolute() or word in (".", "..")) and is_run(path):
        return _readable(RunFolder(path.resolve()))
    infos = list_runs(folder)
    if not infos:
        raise NothingToDoError("there are no runs", where=str(folder), hint="start one with `fluxctl launch`")
    started = [info for info in infos if not info.is_blocked] or infos
    if match := _LATEST.fullmatch(word):
        back = int(match[1] or 0)
        if back >= len(started):
            raise UnknownNameError(f"there is no run '{word}': only {len(started)} runs", where=str(folder))
        return started[-1 - back]
    if ":" in word:
        return _newest_of(word, started, folder)
    fits = [info for info in infos if info.record.id.startswith(word)] if word else []
    exact = [info for info in fits if info.record.id == word]
    if len(exact or fits) == 1:
        return (exact or fits)[0]
    if fits:
        shown = ", ".join(info.record.id for info in fits[:5])
        more = f" and {len(fits) - 5} more" if len(fits) > 5 else ""
        raise UnknownNameError(f"'{word}' is the beginning of {len(fits)} runs", hint=f"{shown}{more}")
    close = difflib.get_close_matches(word, [info.record.id for info in infos], n=1, cutoff=0.4)
    hint = f"did you mean '{close[0]}'?" if close else "see `fluxctl runs list`"
    raise UnknownNameError(f"there is no run '{word}'", where=str(folder), hint=hint)


def filter_runs(infos: Iterable[RunInfo], filters: Sequence[str]) -> list[RunInfo]:
    """Keep the runs for which every ``field=value`` holds.

    Raises:
        ConfigError: If a filter is not of that form.
        UnknownNameError: If a field does not exist.
    """
    wanted = []
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError("expected field=value", where=f"--filter {text}", hint="for example --filter mode=sim")
        wanted.append((name, value, f"--filter {text}"))
    kept = []
    for info in infos:
        row = info.fields()
        if all(_text(_field(row, name, where)).lower() == value.lower() for name, value, where in wanted):
            kept.append(info)
    return kept


def sort_runs(infos: Sequence[RunInfo], field: str) -> list[RunInfo]:
    """Sort by a field; a minus in front turns the order; runs without a value come last.

    Raises:
        UnknownNameError: If the field does not exist.
    """
    name = field.removeprefix("-")
    valued = [info for info in infos if _field(info.fields(), name, f"--sort {field}") is not None]
    rest = [info for info in infos if info.fields().get(name) is None]

    def key(info: RunInfo) -> tuple[float, str]:
        value = info.fields()[name]
        return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))

    return [*sorted(valued, key=key, reverse=field.startswith("-")), *rest]


def crash(folder: RunFolder, reason: str) -> VerdictRecord:
    """The verdict for a run whose process ended without one."""
    error: dict[str, JSON] = {
        "code": "run_broke",
        "message": reason,
        "hint": None,
        "where": str(folder.log),
        "detail": "\n".join(tail(folder.log)),
    }
    return VerdictRecord(Verdict.CRASHED, reason, int(ExitCode.RUN_BROKE), error)


def _write_crash(folder: RunFolder) -> VerdictRecord:
    verdict = crash(folder, "the engine's process is gone and left no verdict")
    try:
        folder.write_verdict(verdict)
        folder.mark_ended()
    except OSError:
        pass  # a folder that only others may write: the answer is the same
    return verdict


def _readable(folder: RunFolder) -> RunInfo:
    info = read_info(folder)
    if info is None:
        raise ConfigError("run.json is damaged", where=str(folder.run))
    return info


def _newest_of(word: str, infos: Sequence[RunInfo], folder: Path) -> RunInfo:
    baseline, _, mode = word.partition(":")
    if mode not in list(Mode):
        raise UnknownNameError(f"'{mode}' is no mode", where=word, hint=f"known: {', '.join(Mode)}")
    fits = [info for info in infos if (info.record.baseline, info.record.mode) == (baseline, mode)]
    if not fits:
        known = sorted({info.record.baseline for info in infos})
        raise UnknownNameError(
            f"there is no {mode} run of '{baseline}'",
            where=str(folder),
            hint=f"baselines with runs: {', '.join(known)}",
        )
    return fits[-1]


def _field(row: dict[str, JSON], name: str, where: str) -> JSON:
    if name not in row:
        close = difflib.get_close_matches(name, row, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(row)}"
        raise UnknownNameError(f"runs have no field '{name}'", where=where, hint=hint)
    return row[name]


def _text(value: JSON) -> str:
    return "" if value is None else str(value)
