"""Curves of a run as a TensorBoard log, through tensorboardX (extra ``tensorboard``).

tensorboardX writes the same files as TensorBoard's own writer and needs numpy, packaging and protobuf; TensorBoard
itself brings a web server, gRPC and Markdown along, which only the viewer needs. Records are written directly, without
the library's summary writer, because that puts the host's name and the time of the export into every file: here the
same run always gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fluxctl.export.target import fresh_folder, need
from fluxctl.telemetry.series import RunSeries, read_series

_VERSION: Final = "brain.Event:2"  # the first record of every log
_NO_DATE: Final = 0.0


def to_tensorboard(events: Path, folder: Path) -> list[Path]:
    """Write a run's curves.

    The step is the number of commits (``evaluation/``, ``gate/``) or of cycles (``cycle/``); the time of a point is
    the start of the run plus its engine time, so that TensorBoard's relative axis shows engine time.

    Args:
        events: ``events.jsonl`` in the directory of a run.
        folder: Where to; an earlier export there is replaced.

    Returns:
        The one file.

    Raises:
        NothingToDoError: If there are no events.
        ConfigError: If tensorboardX is not installed or the folder cannot be written.
    """
    modules = [
        need(f"tensorboardX.{name}", "tensorboard", "an export to TensorBoard")
        for name in ("record_writer", "proto.event_pb2", "proto.summary_pb2")
    ]
    series = read_series(events.parent if (events.parent / "run.json").is_file() else events)
    start = _start(series.facts.created)
    name = f"events.out.tfevents.{int(start):010d}.fluxctl"
    with fresh_folder(folder) as scratch:
        _write(scratch / name, series, start, modules)
    return [folder / name]


def _write(path: Path, series: RunSeries, start: float, modules: list[Any]) -> None:
    records, events, summaries = modules
    writer = records.RecordWriter(str(path))
    try:
        writer.write(events.Event(wall_time=start, file_version=_VERSION).SerializeToString())
        for engine_s, step, tag, value in scalars(series):
            summary = summaries.Summary(value=[summaries.Summary.Value(tag=tag, simple_value=value)])
            event = events.Event(wall_time=start + engine_s, step=step, summary=summary)
            writer.write(event.SerializeToString())
    finally:
        writer.close()


def scalars(series: RunSeries) -> Iterator[tuple[float, int, str, float]]:
    """Every point: engine seconds, step, tag and value; what is not a number is left out."""
    evaluations, cycles = series.evaluations, series.cycles
    for row in range(len(evaluations)):
        at = (float(evaluations.engine_s[row]), int(evaluations.num_commits[row]))
        points = {
            "evaluation/accuracy": evaluations.accuracy[row],
            "evaluation/loss": evaluations.loss[row],
            "evaluation/mcc": evaluations.mcc[row],
            "progress/forward_passes": evaluations.passes[row],
            "progress/bytes_down": evaluations.bytes_down[row],
            "progress/bytes_up": evaluations.bytes_up[row],
            "progress/wall_s": evaluations.wall_s[row],
        }
        yield from ((*at, tag, float(value)) for tag, value in points.items() if math.isfinite(value))
    for row in range(len(cycles)):
        at = (float(cycles.engine_s[row]), row + 1)
        points = {
            "cycle/variance": cycles.var[row],
            "cycle/updates": cycles.num_updates[row],
            "cycle/in_flight": cycles.in_flight[row],
            "cycle/gradient_norm": cycles.grad_norm[row],
        }
        yield from ((*at, tag, float(value)) for tag, value in points.items() if math.isfinite(value))


def _start(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return _NO_DATE
