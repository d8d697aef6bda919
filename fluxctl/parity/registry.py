"""The rungs by id: each module of ``fluxctl.parity.rungs`` registers its own.

Registration is import: ``fluxctl.parity.rungs`` imports every rung module, and the ladder asks here.
"""

from __future__ import annotations

from collections.abc import Callable

from fluxctl.parity.result import Role, Rung, RungFunction, Tier

STAGES = ("0", "1", "2", "3", "3p", "4", "5", "6", "6p", "7", "7p", "8", "9")
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
