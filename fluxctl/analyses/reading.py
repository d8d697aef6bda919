"""The events that an analysis looks at: read by itself, or once for several analyses of one run."""

from __future__ import annotations

from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Columns, Kind, Wanted, read_columns


def events_of(folder: RunFolder, wanted: Wanted, columns: Columns | None) -> Columns:
    """The events of a run.

    Args:
        folder: The run.
        wanted: What is needed of them.
        columns: The events, if they were read already with at least that; None = read them.

    Raises:
        NothingToDoError: If there is no event file or it is empty.
        ConfigError: If it is not an event file that this version reads.
    """
    return read_columns(folder.events, wanted) if columns is None else columns


def together(*several: Wanted) -> Wanted:
    """What several readers want, for one pass over a file that serves them all.

    Raises:
        ValueError: If two of them want one field stored in different ways.
    """
    fields: dict[str, dict[str, Kind]] = {}
    for wanted in several:
        for event, paths in wanted.items():
            known = fields.setdefault(event, {})
            for path, kind in paths.items():
                if known.setdefault(path, kind) is not kind:
                    raise ValueError(f"{event}.{path} is wanted as {known[path]} and as {kind}")
    return fields
