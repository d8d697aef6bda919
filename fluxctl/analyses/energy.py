"""Modelled energy of the clients: power times time, with the time split into compute and network.

``E = compute_watts x compute seconds + radio_watts x network seconds``, summed over client steps. The seconds are the
modelled ones, the power is an assumption: the defaults are of the order of a phone whose processor works at full load
and whose radio sends. So energies compare methods under one assumption and are no measurement of any device. Waiting
for availability, idle power and the server are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.config.model import Config
from fluxctl.data.worlds import client_delays
from fluxctl.telemetry.columns import Floats
from fluxctl.telemetry.series import Updates
from fluxctl.types import JSON, NS_PER_S

COMPUTE_WATTS: Final = 3.0
RADIO_WATTS: Final = 1.0


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Power of a client.

    Attributes:
        compute_watts: While it computes.
        radio_watts: While it receives or sends.
    """

    compute_watts: float = COMPUTE_WATTS
    radio_watts: float = RADIO_WATTS

    def to_json(self) -> dict[str, JSON]:
        """The parameters as JSON."""
        return {"compute_watts": self.compute_watts, "radio_watts": self.radio_watts}


def step_energy_j(config: Config, updates: Updates, power: PowerModel) -> Floats:
    """Energy of each client step.

    Args:
        config: The run's configuration, which says what share of a duration is compute.
        updates: Its client steps.
        power: The assumption.

    Returns:
        Joules, shape ``(len(updates),)``.

    Raises:
        ConfigError: If the durations come from a registry that cannot be read.
    """
    delays = client_delays(config)
    pairs, owner = np.unique(np.stack([updates.client, updates.passes], axis=1), axis=0, return_inverse=True)
    compute_s = np.array([delays.compute_ns(client, passes) / NS_PER_S for client, passes in pairs.tolist()])
    of_step = compute_s[owner.reshape(-1)] if len(pairs) else np.zeros(0)
    of_step = np.minimum(of_step, updates.duration_s)
    network_s = updates.duration_s - of_step
    energy: Floats = power.compute_watts * of_step + power.radio_watts * network_s
    return energy
