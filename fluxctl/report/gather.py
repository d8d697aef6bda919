"""Everything that a report says, read from run directories; what is missing or damaged is named, never fatal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fluxctl.analyses.fairness import fairness
from fluxctl.analyses.partition import partition
from fluxctl.analyses.redundancy import redundancy
from fluxctl.analyses.result import Analysis
from fluxctl.analyses.sanity import sanity
from fluxctl.analyses.timing import timing
from fluxctl.analyses.to_target import to_target
from fluxctl.analyses.variance import variance
from fluxctl.errors import FluxError
from fluxctl.runs.files import read_json
from fluxctl.runs.index import RunInfo
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import AbsentField
from fluxctl.telemetry.series import RunSeries, read_series

Analyse: TypeAlias = Callable[[RunFolder], Analysis]


@dataclass(frozen=True)
class LeftOut:
    """Something that could not be shown.

    Attributes:
        what: Its name.
        why: The reason.
    """

    what: str
    why: str


@dataclass(frozen=True)
class RunPart:
    """One run as a report shows it.

    Attributes:
        info: Who it is and how it ended.
        series: Its numbers; None if it has no readable events.
        analyses: What could be answered.
        left_out: What could not.
        config: ``config.yaml`` as text, values with their origins; empty if absent.
        gate: ``gate.json``; empty if absent.
        provenance: ``provenance.json`` and ``invocation.json``.
        parity: ``parity/*.json`` by file name.
    """

    info: RunInfo
    series: RunSeries | None
    analyses: tuple[Analysis, ...]
    left_out: tuple[LeftOut, ...]
    config: str
    gate: Mapping[str, Any]
    provenance: Mapping[str, Any]
    parity: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Report:
    """What a page says.

    Attributes:
        title: What it is about.
        runs: Its runs, oldest first.
        comparison: Cost to a common accuracy; None for a single run, or where runs cannot be compared.
        left_out: What could not be shown of all runs together.
    """

    title: str
    runs: tuple[RunPart, ...]
    comparison: Analysis | None
    left_out: tuple[LeftOut, ...] = ()

    @property
    def series(self) -> list[RunSeries]:
        """The runs that have numbers."""
        return [run.series for run in self.runs if run.series is not None]


def gather(title: str, infos: Sequence[RunInfo], extra: Mapping[str, Analyse] | None = None) -> Report:
    """Read runs for a report.

    Args:
        title: What the page is about.
        infos: At least one run.
        extra: Further analyses by name, for example those that have to compute with the model.
    """
    runs = tuple(_read(info, extra or {}) for info in infos)
    series = [run.series for run in runs if run.series is not None]
    if len(series) < 2:
        return Report(title, runs, None)
    try:
        return Report(title, runs, to_target(series))
    except FluxError as error:
        return Report(title, runs, None, (LeftOut("cost to a common accuracy", error.message),))


def _read(info: RunInfo, extra: Mapping[str, Analyse]) -> RunPart:
    folder = info.folder
    analyses: list[Analysis] = []
    left_out: list[LeftOut] = []
    series: RunSeries | None = None
    try:
        series = read_series(folder.path)
    except FluxError as error:
        left_out.append(LeftOut("everything from its events", error.message))
    if series is not None:
        known = series
        wanted: dict[str, Analyse] = {
            "sanity": sanity,
            "variance": variance,
            "redundancy": redundancy,
            "timing": timing,
            "partition": partition,
            "fairness": lambda _: fairness(known),
            **extra,
        }
        for name, analyse in wanted.items():
            try:
                analyses.append(analyse(folder))
            except AbsentField as field:
                left_out.append(LeftOut(name, f"no event carries {field.path}"))
            except FluxError as error:
                left_out.append(LeftOut(name, error.message))
    origin = {
        "provenance": read_json(folder.path / "provenance.json") or {},
        "invocation": read_json(folder.path / "invocation.json") or {},
    }
    return RunPart(
        info,
        series,
        tuple(analyses),
        tuple(left_out),
        _text(folder),
        read_json(folder.gate) or {},
        origin,
        _parity(folder),
    )


def _text(folder: RunFolder) -> str:
    try:
        return folder.config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _parity(folder: RunFolder) -> dict[str, Mapping[str, Any]]:
    files = sorted((folder.path / "parity").glob("*.json"))
    return {file.stem: data for file in files if (data := read_json(file)) is not None}
