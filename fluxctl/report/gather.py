"""Everything that a report says, read from run directories; what is missing or damaged is named, never fatal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from fluxctl.analyses import partition, redundancy, sanity, timing, variance
from fluxctl.analyses.cohorts import WANTED as COHORTS
from fluxctl.analyses.fairness import fairness
from fluxctl.analyses.reading import together
from fluxctl.analyses.result import Analysis
from fluxctl.analyses.to_target import to_target
from fluxctl.errors import FluxError
from fluxctl.report.left_out import LeftOut
from fluxctl.report.parity import PairData, parity
from fluxctl.runs.files import read_json
from fluxctl.runs.index import RunInfo
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import AbsentField, Columns, read_columns
from fluxctl.telemetry.run_facts import read_facts
from fluxctl.telemetry.series import WANTED as SERIES
from fluxctl.telemetry.series import RunSeries, reduce

Analyse: TypeAlias = Callable[[RunFolder], Analysis]
# one pass over a run's events serves everything
_WANTED: Final = together(SERIES, sanity.WANTED, variance.WANTED, redundancy.WANTED, timing.WANTED, COHORTS)


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
    """

    info: RunInfo
    series: RunSeries | None
    analyses: tuple[Analysis, ...]
    left_out: tuple[LeftOut, ...]
    config: str
    gate: Mapping[str, Any]
    provenance: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """What a page says.

    Attributes:
        title: What it is about.
        runs: Its runs, oldest first.
        comparison: Cost to a common accuracy; None for a single run, or where runs cannot be compared.
        parity: What parity says of the pairs among them.
        left_out: What could not be shown of all runs together.
    """

    title: str
    runs: tuple[RunPart, ...]
    comparison: Analysis | None
    parity: tuple[PairData, ...] = ()
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
    pairs, left_out = parity(infos)
    series = [run.series for run in runs if run.series is not None]
    comparison = None
    if len(series) > 1:
        try:
            comparison = to_target(series)
        except FluxError as error:
            left_out.append(LeftOut("cost to a common accuracy", error.message))
    return Report(title, runs, comparison, tuple(pairs), tuple(left_out))


def _read(info: RunInfo, extra: Mapping[str, Analyse]) -> RunPart:
    folder = info.folder
    analyses: list[Analysis] = []
    left_out: list[LeftOut] = []
    series: RunSeries | None = None
    try:
        columns = read_columns(folder.events, _WANTED)
    except FluxError as error:
        left_out.append(LeftOut("everything from its events", error.message))
    else:
        series = reduce(columns, read_facts(columns, folder.path))
        wanted = {**_from_events(columns, series), **extra}
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
    )


def _from_events(columns: Columns, series: RunSeries) -> dict[str, Analyse]:
    """The analyses that need nothing but what was read."""
    return {
        "sanity": partial(sanity.sanity, columns=columns),
        "variance": partial(variance.variance, columns=columns),
        "redundancy": partial(redundancy.redundancy, columns=columns),
        "timing": partial(timing.timing, columns=columns),
        "partition": partial(partition.partition, columns=columns),
        "fairness": lambda _: fairness(series),
    }


def _text(folder: RunFolder) -> str:
    try:
        return folder.config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
