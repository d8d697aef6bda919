"""How long a message travels: bytes over a per-client bandwidth.

A client's bandwidth is a function of (seed, client), one factor for both directions, since a poor link is poor both
ways. Off means that messages take no time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field

from fluxctl.registry import Params
from fluxctl.types import NS_PER_S, ClientId, Ns
from fluxctl.world.seeds import stream


class Direction(StrEnum):
    """Which way a message goes."""

    DOWN = "down"  # aggregator to client
    UP = "up"


class BandwidthParams(Params):
    """The links of clients."""

    model: Literal["off", "constant", "lognormal"] = Field(
        "off", description="off = messages take no time; constant = all clients alike; lognormal = spread over clients"
    )
    down_bytes_per_s: float = Field(
        2_500_000.0, gt=0, allow_inf_nan=False, description="to a client: bytes per second (lognormal: the median)"
    )
    up_bytes_per_s: float = Field(
        750_000.0, gt=0, allow_inf_nan=False, description="from a client: bytes per second (lognormal: the median)"
    )
    log_sd: float = Field(0.8, ge=0, le=3, description="lognormal: standard deviation of the logarithm over clients")


@dataclass(frozen=True)
class ClientBandwidth:
    """Bandwidths of all clients of a run.

    Args:
        cfg: Model and medians.
        seed: The run's seed.
    """

    cfg: BandwidthParams
    seed: int
    _factors: dict[ClientId, float] = field(default_factory=dict, repr=False, compare=False)

    def bytes_per_s(self, client: ClientId, direction: Direction) -> float:
        """Bandwidth of a client; infinite when off."""
        if self.cfg.model == "off":
            return math.inf
        typical = self.cfg.down_bytes_per_s if direction is Direction.DOWN else self.cfg.up_bytes_per_s
        return typical * self._factor(client)

    def transfer_ns(self, client: ClientId, num_bytes: int, direction: Direction) -> Ns:
        """How long a message travels, rounded up to a nanosecond; 0 when off or empty."""
        if self.cfg.model == "off":
            return 0
        return math.ceil(num_bytes / self.bytes_per_s(client, direction) * NS_PER_S)

    def _factor(self, client: ClientId) -> float:
        if self.cfg.model == "constant":
            return 1.0
        known = self._factors.get(client)
        if known is None:
            # Two threads may both draw it: they draw the same.
            normal = float(stream(self.seed, "bandwidth", client=client).normals(1)[0])
            known = self._factors[client] = math.exp(self.cfg.log_sd * normal)
        return known


def build_bandwidth(cfg: BandwidthParams, seed: int) -> ClientBandwidth:
    """Bandwidths for a run's seed."""
    return ClientBandwidth(cfg, seed)
