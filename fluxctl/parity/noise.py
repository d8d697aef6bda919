"""The noise floor: how much two real runs of one configuration differ from each other.

A simulation cannot be closer to a real run than another real run is, so what was measured between real runs is shown
beside every threshold, and a clock rung fails only beyond twice of it (see :mod:`fluxctl.parity.ladder`). Floors are
kept in the runs folder, by run fingerprint: runs of another configuration, or on another commit order, have a floor of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fluxctl.parity.ladder import Ladder
from fluxctl.runs.files import read_json, write_json
from fluxctl.types import JSON

_SCHEMA_VERSION: Final = 1


def noise_file(runs_folder: Path) -> Path:
    """Where the floors of a runs folder are kept."""
    return runs_folder / "parity" / "noise.json"


def read_noise(runs_folder: Path, fingerprint: str) -> dict[str, float]:
    """The largest difference of each rung over all measured pairs of a configuration; empty if none was measured.

    Args:
        runs_folder: Where runs live.
        fingerprint: Run fingerprint.
    """
    floors: dict[str, float] = {}
    for measured in _pairs(_read(runs_folder), fingerprint).values():
        for rung_id, value in measured.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                floors[rung_id] = max(floors.get(rung_id, 0.0), abs(float(value)))
    return floors


def add_noise(runs_folder: Path, fingerprint: str, baseline: str, runs: tuple[str, str], ladder: Ladder) -> Path:
    """Keep what a pair of real runs measured; the same pair again replaces what it said before.

    Args:
        runs_folder: Where runs live.
        fingerprint: Run fingerprint that both runs share.
        baseline: What people call the configuration.
        runs: Ids of both runs.
        ladder: What was measured.

    Returns:
        The file.
    """
    floors = _read(runs_folder)
    pairs = dict(_pairs(floors, fingerprint))
    pairs[" ".join(sorted(runs))] = {
        result.rung.id: abs(result.finding.value) for result in ladder.results if result.finding.value is not None
    }
    floors[fingerprint] = {"baseline": baseline, "pairs": pairs}
    path = noise_file(runs_folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    data: dict[str, JSON] = {"schema_version": _SCHEMA_VERSION, "floors": floors}
    write_json(path, data)
    return path


def _read(runs_folder: Path) -> dict[str, Any]:
    data = read_json(noise_file(runs_folder)) or {}
    floors = data.get("floors")
    return dict(floors) if data.get("schema_version") == _SCHEMA_VERSION and isinstance(floors, dict) else {}


def _pairs(floors: Mapping[str, Any], fingerprint: str) -> dict[str, dict[str, Any]]:
    entry = floors.get(fingerprint)
    pairs = entry.get("pairs") if isinstance(entry, dict) else None
    return {name: of for name, of in pairs.items() if isinstance(of, dict)} if isinstance(pairs, dict) else {}
