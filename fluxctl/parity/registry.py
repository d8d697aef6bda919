"""The rungs by id: each module of ``fluxctl.parity.rungs`` registers its own.

Registration is import: ``fluxctl.parity.rungs`` imports every rung module, and the ladder asks here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fluxctl.parity.result import Role, Rung, RungFunction, Tier

STAGE_TITLES: Final = {
    "0": "presence",
    "1": "clock",
    "2": "availability",
    "3": "selection",
    "3p": "control",
    "4": "compute",
    "5": "arrival",
    "6": "commits",
    "6p": "variance gate",
    "7": "utility",
    "7p": "gradients",
    "8": "outcome",
    "9": "budgets",
}
STAGES = tuple(STAGE_TITLES)
_RUNGS: dict[str, Rung] = {}


def rung(
    id: str,
    short: str,
    name: str,
    *,
    stage: str,
    tier: Tier,
    role: Role,
    question: str,
    broken: str,
    needs: tuple[str, ...] = (),
    is_gated: bool = False,
    is_timed: bool = False,
    is_clock_rung: bool = False,
) -> Callable[[RungFunction], RungFunction]:
    """Register a function as a rung; see :class:`Rung` for the arguments.

    Raises:
        ValueError: If the id or the name is taken, or the stage is unknown.
    """
    if stage not in STAGES:
        raise ValueError(f"unknown stage '{stage}' of rung {id}")

    def register(check: RungFunction) -> RungFunction:
        if id in _RUNGS or any(name == other.name for other in _RUNGS.values()):
            raise ValueError(f"rung {id} ({name}) is registered twice")
        _RUNGS[id] = Rung(
            id, short, name, stage, tier, role, question, broken, needs, is_gated, is_timed, is_clock_rung, check
        )
        return check

    return register


def all_rungs() -> tuple[Rung, ...]:
    """Every rung, by stage and then by number."""
    import fluxctl.parity.rungs  # noqa: F401 (registers them)

    return tuple(sorted(_RUNGS.values(), key=lambda item: (STAGES.index(item.stage), _number(item.id))))


def _number(rung_id: str) -> int:
    return int(rung_id[1:]) if rung_id[1:].isdigit() else 1000
