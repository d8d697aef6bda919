"""Small shared vocabulary: time, identifiers, and the enumerations that appear in files and on the command line.

Nothing here decides anything; a type belongs here only when two packages that must not import each other both need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

Ns: TypeAlias = int  # engine time, integer nanoseconds from 0
ClientId: TypeAlias = int
JSON: TypeAlias = (
    "Mapping[str, JSON] | Sequence[JSON] | str | int | float | bool | None"  # what a file or an event can hold
)
NS_PER_S = 1_000_000_000
NEVER: Ns = 1 << 62  # about 146 years of engine time: later than any budget


def ns_from_s(seconds: float) -> Ns:
    """Round seconds to the nearest nanosecond of engine time."""
    return round(seconds * NS_PER_S)


def s_from_ns(ns: Ns) -> float:
    """Engine time in seconds."""
    return ns / NS_PER_S


class Mode(StrEnum):
    """Which clock a run is on."""

    REAL = "real"
    SIM = "sim"


class Verdict(StrEnum):
    """How a run ended; ``verdict.json`` holds the truth."""

    COMPLETED = "COMPLETED"
    CONVERGED = "CONVERGED"
    DID_NOT_CONVERGE = "DID_NOT_CONVERGE"
    STALLED = "STALLED"
    DIVERGED = "DIVERGED"
    STARVED = "STARVED"
    WALL_CEILING = "WALL_CEILING"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"
    INTERRUPTED = "INTERRUPTED"
    NO_ROUNDS = "NO_ROUNDS"
    BLOCKED = "BLOCKED"


class CommitReason(StrEnum):
    """Why the variance gate opened."""

    NATURAL = "natural"
    CAP = "cap"
    PLATEAU = "plateau"


class PayloadKind(StrEnum):
    """What a message carries."""

    WEIGHTS = "weights"
    WEIGHTS_AND_GRADIENT = "weights_and_gradient"
    KEEP_GOING = "keep_going"
    GRADIENT = "gradient"
    MEASUREMENT = "measurement"
    DELTA = "delta"
    SEED_SCALAR = "seed_scalar"


class Availability(StrEnum):
    """What a client's device can be asked to do; the words are those of trace files."""

    AVL_TRAIN = "AVL_TRAIN"
    AVL_EVAL = "AVL_EVAL"
    UN_AVL = "UN_AVL"
