"""The fastest clients first.

Nishio and Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge, ICC 2019,
arXiv:1804.08333 (FedCS): whoever finishes soonest. A control, and an unfair one: slow clients' data is never seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from fluxctl.policies.selectors.base import SELECTORS, ClientBeliefs, Forecast, Selection, SelectionView
from fluxctl.policies.selectors.ranking import lowest
from fluxctl.registry import Params
from fluxctl.world.seeds import Stream

_NO_STATE: Final[Mapping[str, float]] = {}


@SELECTORS.register("fastest")
@final
@dataclass(frozen=True, slots=True)
class Fastest:
    """The smallest duration first; a client of unknown duration is tried before the known ones."""

    params: Params
    reads: ClassVar[frozenset[Forecast]] = frozenset({Forecast.DURATION})

    def initial_state(self) -> Mapping[str, float]:
        """Nothing is remembered."""
        return _NO_STATE

    def select(
        self,
        view: SelectionView,
        num: int,
        stream: Stream,
        state: Mapping[str, float],  # noqa: ARG002 (part of the protocol)
    ) -> Selection:
        """Choose by duration; see :class:`~fluxctl.policies.selectors.base.Selector`. Ties are random.

        Linear in the number of clients, vectorised.
        """
        eligible = view.eligible()
        duration_s = known_durations(view.beliefs)
        keys = np.where(np.isfinite(duration_s), duration_s, -math.inf)
        chosen = lowest(eligible, keys[eligible], num, stream)
        told = [value if math.isfinite(value) else None for value in duration_s[chosen].tolist()]
        return Selection(tuple(chosen.tolist()), detail={"duration_s": told})


def known_durations(beliefs: ClientBeliefs) -> NDArray[np.float64]:
    """Observed seconds of each client's task, else the modelled ones; nan where there are neither."""
    if beliefs.modelled_duration_s is None:
        return beliefs.duration_s
    return np.where(np.isfinite(beliefs.duration_s), beliefs.duration_s, beliefs.modelled_duration_s)
