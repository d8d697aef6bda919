"""Who a run is and how it ended, from its directory and its events; whatever is missing is None or empty."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fluxctl.config.load import load_layer, resolve
from fluxctl.config.model import Config
from fluxctl.config.source import read_text
from fluxctl.errors import FluxError
from fluxctl.telemetry.columns import Columns


@dataclass(frozen=True)
class RunFacts:
    """What figures and tables say about a run beside its numbers.

    Attributes:
        id: The run's id; the file's name for a bare event file.
        events: Its event file.
        folder: Its directory; None for a bare event file.
        baseline: System under test.
        variant: Variant of the run set; empty without one.
        run_set: The run set.
        mode: ``real`` or ``sim``; empty if unknown.
        seed: Root of all draws; None if unknown.
        created: When it was made, ISO 8601; empty if unknown.
        verdict: How it ended; None while it runs, or if nobody has said.
        reason: Why it ended so.
        condition: Fingerprint of what must match to be drawn in one figure; empty if unknown.
        run_print: Fingerprint of what must match to be paired; empty if unknown.
        seedless: Fingerprint of what must match to form one band over seeds; empty if unknown.
        classes: Names of the classes.
        num_params: Trainable parameters; None if unknown.
        num_clients: Clients that the run was asked to have; None if unknown.
        bins_per_round: Bins of a round; None if unknown.
        target_accuracy: Accuracy to hold; None without a target.
        summary: What ``verdict.json`` adds up.
        config: The configuration; None if it cannot be read.
    """

    id: str
    events: Path
    folder: Path | None = None
    baseline: str = ""
    variant: str = ""
    run_set: str = ""
    mode: str = ""
    seed: int | None = None
    created: str = ""
    verdict: str | None = None
    reason: str = ""
    condition: str = ""
    run_print: str = ""
    seedless: str = ""
    classes: tuple[str, ...] = ()
    num_params: int | None = None
    num_clients: int | None = None
    bins_per_round: int | None = None
    target_accuracy: float | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    config: Config | None = None

    @property
    def label(self) -> str:
        """What the run is called among others of its run set."""
        return f"{self.baseline}_{self.variant}" if self.variant else self.baseline or self.id


def read_facts(columns: Columns, folder: Path | None) -> RunFacts:
    """Gather what is known of a run.

    Args:
        columns: Its events.
        folder: Its directory; None for a bare event file.
    """
    meta, verdict = columns.meta, columns.verdict
    identity = _dict(columns.header.get("identity"))
    record = _dict(_json(folder / "run.json")) if folder else {}
    end = _dict(_json(folder / "verdict.json")) if folder else {}
    prints = _dict(record.get("fingerprints"))
    config = _config(folder)
    name = columns.path.stem if folder is None else folder.resolve().name
    seed = record.get("seed", meta.get("seed"))
    classes = meta.get("classes")
    return RunFacts(
        id=str(record.get("id") or identity.get("run") or name),
        events=columns.path,
        folder=folder,
        baseline=str(record.get("baseline") or meta.get("baseline") or ""),
        variant=str(record.get("variant") or ""),
        run_set=str(record.get("run_set") or meta.get("run_set") or ""),
        mode=str(record.get("mode") or identity.get("mode") or ""),
        seed=seed if isinstance(seed, int) else None,
        created=str(record.get("created") or ""),
        verdict=_text(end.get("verdict", verdict.get("verdict"))),
        reason=str(end.get("reason") or verdict.get("reason") or ""),
        condition=str(prints.get("condition") or meta.get("condition") or ""),
        run_print=str(prints.get("run") or meta.get("config_hash") or ""),
        seedless=str(prints.get("seedless") or ""),
        classes=tuple(map(str, classes)) if isinstance(classes, list) else (),
        num_params=_int(meta.get("num_params")),
        num_clients=None if config is None else config.clients.num_clients,
        bins_per_round=_int(meta.get("bins_per_round")),
        target_accuracy=None if config is None else config.limits.target_accuracy,
        summary=_dict(end.get("summary")),
        config=config,
    )


def _config(folder: Path | None) -> Config | None:
    if folder is None:
        return None
    try:
        return resolve([load_layer(read_text(folder / "config.yaml"))]).config
    except FluxError:  # absent, damaged, or of a version with other keys: figures do without
        return None


def _json(path: Path) -> object:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None
