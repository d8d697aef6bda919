"""What the phases of a client's step cost, measured as processor time of the thread that does them.

Processor time, not wall time: a simulation keeps all cores busy and a real run leaves them idle, so that wall times
of the same work differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, RungFunction, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import windows

MOST: Final = 0.25
NEGLIGIBLE_S: Final = 0.005  # a phase that is this short in both runs is not worth a distribution


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a step.

    Attributes:
        id: Of its rung.
        name: Of its rung, without the prefix.
        field: Where ``trainer_round`` holds its seconds.
        what: In plain words.
        needs: Rungs that its rung depends on.
    """

    id: str
    name: str
    field: str
    what: str
    needs: tuple[str, ...] = ()

    @property
    def is_diagnostic(self) -> bool:
        """Fetching weights is a lookup in memory here; on another executor it is the executor's business."""
        return self.name == "fetch"


PHASES: Final = (
    Phase("D40", "pre_train", "wall.pre_train_s", "preparing a step"),
    Phase("D41", "to_device", "wall.to_device_s", "moving a step's data to the device"),
    Phase("D42", "compute", "wall.train_s", "the forward pass of a step", needs=("D39",)),
    Phase("D43", "fetch", "wall.fetch_s", "fetching the weights of a step"),
    Phase("D44", "from_device", "wall.from_device_s", "moving a step's result from the device"),
    Phase("D45", "post_train", "wall.post_train_s", "encoding a step's result"),
)


def _check(phase: Phase) -> RungFunction:
    def check(left: Observed, right: Observed, options: Options) -> Finding:
        real, sim = windows(left, right, options)
        return judged_ks(
            real.numbers("trainer_round", phase.field),
            sim.numbers("trainer_round", phase.field),
            MOST,
            phase.what,
            negligible=NEGLIGIBLE_S,
            unit="s",
        )

    return check


for _phase in PHASES:
    rung(
        _phase.id,
        f"phase_{_phase.name}",
        f"phase_{_phase.name}",
        stage="4",
        tier=Tier.DIAG if _phase.is_diagnostic else Tier.DIST,
        role=Role.DIAGNOSTIC if _phase.is_diagnostic else Role.MECHANISM,
        question=f"Does {_phase.what} take as much processor time in both runs?",
        broken=f"In one run {_phase.what} is more work than in the other: the two do not compute the same.",
        needs=_phase.needs,
        is_timed=True,
    )(_check(_phase))
