"""Which accelerators a launch may use, and which trainers and aggregator go where.

A placement is a plan that is recorded beside the run. Whether compute heeds it is for the engine to say: it reports the
device that its steps ran on, and today that is the CPU, on every host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxctl.errors import ConfigError
from fluxctl.runs.process import output_of
from fluxctl.types import JSON

CPU: Final = "cpu"
SCHEMA_VERSION: Final = 1
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")


def visible_devices(environ: Mapping[str, str], num_present: int | None = None) -> tuple[str, ...]:
    """Accelerators that processes of this environment may use; none on a host that has only a CPU.

    Args:
        environ: ``CUDA_VISIBLE_DEVICES`` may hide some of them.
        num_present: How many the host has; None = look.
    """
    present = _num_present() if num_present is None else num_present
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return tuple(f"cuda:{index}" for index in range(present))
    shown: list[str] = []
    for word in filter(None, (part.strip() for part in mask.split(","))):
        is_there = not word.isdigit() or int(word) < present  # others are UUIDs, which nobody can check here
        if word.startswith("-") or not is_there:
            break  # as the driver reads it: whatever follows a wrong entry is hidden
        shown.append(word)
    return tuple(f"cuda:{index}" for index in range(min(len(shown), present)))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where trainers and aggregator go.

    Args:
        devices: Names of the devices, the CPU being one.
        trainers: Trainers on each, in the order of ``devices``.
        aggregator: The device of the aggregator.
    """

    devices: tuple[str, ...]
    trainers: tuple[int, ...]
    aggregator: str

    @property
    def num_idle(self) -> int:
        """Devices without a trainer."""
        return self.trainers.count(0)

    @property
    def is_even(self) -> bool:
        """Whether the busiest device has no more trainers than the idlest."""
        return max(self.trainers) == min(self.trainers)

    def device_of(self, trainer: int) -> str:
        """The device of a trainer."""
        return self.devices[trainer % len(self.devices)]

    def to_json(self) -> dict[str, JSON]:
        """``placement.json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "devices": list(self.devices),
            "trainers": dict(zip(self.devices, self.trainers, strict=True)),
            "aggregator": self.aggregator,
        }


def place(num_trainers: int, devices: tuple[str, ...]) -> Placement:
    """Trainers round robin over the devices, the aggregator on the one with the fewest; of several, on the last.

    Args:
        num_trainers: Trainers of the run.
        devices: Where they may go; none = the CPU.
    """
    names = devices or (CPU,)
    counts = tuple(len(range(index, num_trainers, len(names))) for index in range(len(names)))
    idlest = min(reversed(range(len(names))), key=counts.__getitem__)
    return Placement(names, counts, names[idlest])


def read_devices(text: str) -> int:
    """Read what ``--devices`` was given: a number of accelerators, or ``cpu`` for none.

    Raises:
        ConfigError: If it is neither.
    """
    if text == CPU:
        return 0
    if re.fullmatch(r"\d{1,4}", text):
        return int(text)
    raise ConfigError(
        f"'{text}' is not a number of devices", where=f"--devices {text}", hint="for example --devices 2, or cpu"
    )


def _num_present() -> int:
    try:
        return sum(1 for _ in _DRIVER.iterdir())
    except OSError:
        listed = output_of(["nvidia-smi", "-L"])
        return 0 if listed is None else sum(line.startswith("GPU ") for line in listed.splitlines())
