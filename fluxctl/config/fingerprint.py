"""Three hashes of a configuration that decide what may be compared, paired and averaged.

* condition: the axes that all systems under test share. Runs of one condition may be drawn in one figure. No seed,
  selector, optimizer, goal or other choice that makes a baseline what it is.
* run: everything but the mode and what only the wall can notice. Equal runs may be paired (real with sim) or resumed.
* seedless: the run without its seed. Runs that differ only in the seed form one band.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from fluxctl.config.model import Config
from fluxctl.types import JSON

# Dotted paths, a section standing for all that is in it.
CONDITION: Final = (
    "model",
    "data",
    "partition",
    "clients",
    "availability.trace",
    "availability.on_unavailable",
    "delays.enabled",
    "delays.model",
    "delays.factor",
    "delays.low_s",
    "delays.high_s",
    "delays.compute_frac",
    "delays.compute_model",
    "delays.pareto_shape",
    "delays.zipf_exponent",
    "delays.registry",
    "delays.registry_assign",
    "delays.straggler_spread_s",
    "links",
    "limits.max_bins",
    "limits.max_rounds",
    "limits.max_runtime_s",
    "limits.target_accuracy",
    "limits.converge_window",
    "limits.divergence_guard",
    "limits.stall_window_s",
    "limits.stall_on",
    "limits.stall_min_delta",
    "limits.loss_min_rel_delta",
    "engine.charge_compute",
    "engine.charge_evaluation",
    "engine.evaluation_s",
    "engine.commit_order",
    "engine.abandon_after_s",
)
WALL_ONLY: Final = (
    "mode",
    "limits.max_wall_s",
    "engine.num_workers",
    "engine.wall_factor",
    "engine.register_timeout_s",
    "engine.reorder_slack_s",
    "telemetry",
)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """16 hex digits each."""

    condition: str
    run: str
    seedless: str


def fingerprints(config: Config) -> Fingerprints:
    """Hash a configuration."""
    values = _flat(config.model_dump(mode="json"))
    condition = {path: value for path, value in values.items() if _within(path, CONDITION)}
    run = {path: value for path, value in values.items() if not _within(path, WALL_ONLY)}
    seedless = {path: value for path, value in run.items() if path != "seed"}
    return Fingerprints(_digest(condition), _digest(run), _digest(seedless))


def config_differences(left: Config, right: Config) -> dict[str, tuple[JSON, JSON]]:
    """In what two configurations differ: dotted path -> both values, None where a side lacks it; in their order."""
    ours, theirs = (_flat(config.model_dump(mode="json")) for config in (left, right))
    return {
        path: (ours.get(path), theirs.get(path)) for path in {**ours, **theirs} if ours.get(path) != theirs.get(path)
    }


def run_differences(left: Config, right: Config) -> dict[str, tuple[JSON, JSON]]:
    """What makes two configurations different runs, in the same form."""
    return {path: both for path, both in config_differences(left, right).items() if not _within(path, WALL_ONLY)}


def condition_differences(left: Config, right: Config) -> dict[str, tuple[JSON, JSON]]:
    """What makes two configurations different conditions, in the same form."""
    return {path: both for path, both in config_differences(left, right).items() if _within(path, CONDITION)}


def _within(path: str, owners: tuple[str, ...]) -> bool:
    return any(path == owner or path.startswith(f"{owner}.") for owner in owners)


def _flat(value: JSON, prefix: str = "") -> dict[str, JSON]:
    """Dotted path -> value; an empty mapping is a value."""
    if isinstance(value, dict) and value:
        flat: dict[str, JSON] = {}
        for name, child in value.items():
            flat.update(_flat(child, f"{prefix}.{name}" if prefix else str(name)))
        return flat
    return {prefix: value}


def _digest(values: dict[str, JSON]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
