"""What a staleness policy sees of an update and what it answers.

A policy says whether an update that was dispatched on an older model still counts, and as how old the rate should
take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from fluxctl.errors import InvariantError
from fluxctl.registry import Registry


@dataclass(frozen=True, slots=True)
class StalenessView:
    """Where an update comes from and where the aggregator stands.

    Attributes:
        update_version: Model version that it was computed on.
        update_round: Round at its dispatch.
        update_bin: Bin at its dispatch.
        update_iteration: Iteration at its dispatch.
        version: Model version now.
        round: Round now.
        bin: Bin now.
        iteration: Iteration now.
        age_s: Engine seconds since its dispatch.
    """

    update_version: int
    update_round: int
    update_bin: int
    update_iteration: int
    version: int
    round: int
    bin: int
    iteration: int
    age_s: float = 0.0

    @property
    def staleness(self) -> int:
        """Model versions between dispatch and now.

        Raises:
            InvariantError: If it is not within ``[0, version]``, which an unset or foreign version stamp would give.
        """
        if not 0 <= self.update_version <= self.version:
            raise InvariantError(
                f"an update of model version {self.update_version} cannot exist at version {self.version}"
            )
        return self.version - self.update_version


@dataclass(frozen=True, slots=True)
class StalenessDecision:
    """What becomes of an update.

    Attributes:
        accepted: Whether it joins the current bin's updates.
        rate_staleness: The age that its rate is computed from, in versions or in what the policy equates with them.
    """

    accepted: bool
    rate_staleness: float


class StalenessPolicy(Protocol):
    """Judges late updates.

    Attributes:
        can_reject: Whether it ever refuses an update; if not, an engine need not look at each one as it comes.
    """

    can_reject: ClassVar[bool]

    def judge(self, view: StalenessView) -> StalenessDecision:
        """Judge one update.

        Raises:
            InvariantError: If the stamps are impossible.
        """
        ...


STALENESS: Final[Registry[StalenessPolicy]] = Registry("staleness policy")
