"""Which states of a client allow which task, and the integer codes of states in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fluxctl.types import Availability

Codes: TypeAlias = npt.NDArray[np.int8]  # states of many clients; a code is an index of STATES
States: TypeAlias = frozenset[Availability]

STATES: Final[tuple[Availability, ...]] = tuple(Availability)
CODES: Final[Mapping[Availability, int]] = {state: code for code, state in enumerate(STATES)}
AVAILABLE: Final[States] = frozenset({Availability.AVL_TRAIN, Availability.AVL_EVAL})  # can be reached at all


class TaskKind(StrEnum):
    """What a client is asked to do."""

    FORWARD_GRADIENT = "forward_gradient"
    BACK_PROPAGATION = "back_propagation"
    EVALUATION = "evaluation"


_ELIGIBLE: Final[Mapping[TaskKind, States]] = {
    TaskKind.FORWARD_GRADIENT: AVAILABLE,  # forward passes alone: no more than an evaluation needs
    TaskKind.BACK_PROPAGATION: frozenset({Availability.AVL_TRAIN}),
    TaskKind.EVALUATION: AVAILABLE,
}


def eligible_states(task: TaskKind) -> States:
    """States in which a client can do a task."""
    return _ELIGIBLE[task]


def is_eligible(codes: Codes, eligible: States) -> npt.NDArray[np.bool_]:
    """Which of many clients are in an eligible state.

    Args:
        codes: Their states, shape ``(n,)``.
        eligible: States that count.

    Returns:
        Shape ``(n,)``.
    """
    return np.array([state in eligible for state in STATES])[codes]
