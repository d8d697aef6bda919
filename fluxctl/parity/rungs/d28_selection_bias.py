"""Whether equally fast clients are chosen."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Tier
from fluxctl.parity.stats import judged_ks
from fluxctl.parity.window import Window, windows
from fluxctl.telemetry.columns import Floats

MOST: Final = 0.2


@rung(
    "D28",
    "A2c",
    "selection_bias",
    stage="3",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Are the chosen clients equally fast?",
    broken="One run favours fast or slow clients: its times and its data are those of other clients.",
    needs=("D15",),
)
def selection_bias(left: Observed, right: Observed, options: Options) -> Finding:
    """Distributions of the modelled duration D over everybody who was chosen, once for each time."""
    first, second = (_chosen_durations_s(window) for window in windows(left, right, options))
    return judged_ks(first, second, MOST, "durations of the chosen clients", unit="s")


def _chosen_durations_s(window: Window) -> Floats:
    """D of each chosen client, as its updates tell it; clients that never delivered one are left out."""
    updates = window.run.updates
    clients, first = np.unique(updates.ints("client"), return_index=True)
    durations_s = updates.numbers("modelled_d_s")[first]
    chosen = window.pooled("selection", "chosen").astype(np.int64)
    at = np.minimum(np.searchsorted(clients, chosen), len(clients) - 1)
    return np.asarray(durations_s[at[clients[at] == chosen]])
