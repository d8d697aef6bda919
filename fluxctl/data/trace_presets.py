"""Availability traces by name: the files under ``presets/traces``, a user's own, or a bare list of changes."""

from __future__ import annotations

from pathlib import Path

from fluxctl.config.presets import preset_names, shipped
from fluxctl.config.problems import validated
from fluxctl.config.source import parse, read_text
from fluxctl.config.tree import problem_at
from fluxctl.errors import UnknownNameError
from fluxctl.registry import suggestion
from fluxctl.world.availability import TraceSpec


def load_trace_spec(name: str) -> TraceSpec:
    """Find out what a trace is.

    Args:
        name: A shipped trace, the path of a description (``.yaml``), or of a file of changes (``.csv``, ``.jsonl``),
            which then starts over when it ends.

    Raises:
        UnknownNameError: With the nearest name.
        ConfigError: If the description is not right.
    """
    suffix = Path(name).suffix.lower()
    if suffix in (".csv", ".jsonl", ".ndjson"):
        return TraceSpec(description=f"read from {name}", kind="file", path=name)
    if suffix in (".yaml", ".yml"):
        tree = parse(read_text(Path(name)))
    else:
        known = preset_names("traces")
        if name not in known:
            raise UnknownNameError(
                f"there is no trace '{name}'", hint=suggestion(name, known), where="availability.trace"
            )
        tree = shipped("traces", name)
    if not isinstance(tree.value, dict):
        raise problem_at(tree.place, "the file must be a mapping of keys to values", "it needs description and kind")
    return validated(tree, TraceSpec)
