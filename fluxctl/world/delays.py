"""How long a client takes: one modelled duration D per client, constant over its tasks.

D stands for compute and network together, as measured on real devices; the compute share can be scaled by the forward
passes of a step. A client's D is a function of (seed, client), drawn when it is first asked for, so a million idle
clients cost nothing. Results are integer nanoseconds, equal on both clocks.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final, Literal, Protocol, final

from pydantic import Field

from fluxctl.config.model import DelaysConfig
from fluxctl.errors import ConfigError
from fluxctl.registry import Params
from fluxctl.types import NS_PER_S, ClientId, Ns, ns_from_s
from fluxctl.world.seeds import Stream, stream

LOG_MEAN: Final = 2.25  # of D in seconds, over 300 measured clients
LOG_SD: Final = 0.735
_MOST_RANKS: Final = 100_000  # of a Zipf law; more would only cost time
OFF_NS: Final[Ns] = NS_PER_S // 1000  # a task without modelled delay still takes time, so that causes precede effects


@dataclass(frozen=True)
class ClientDelays:
    """Durations of all clients of a run.

    Args:
        cfg: Model, bounds, factor and compute share.
        seed: The run's seed.
        model: A distribution with parameters of its own, in place of ``cfg.model``; its bounds are those of ``cfg``.
    """

    cfg: DelaysConfig
    seed: int
    model: DelayModel | None = None
    _known: dict[ClientId, Ns] = field(default_factory=dict, repr=False, compare=False)

    def duration_ns(self, client: ClientId) -> Ns:
        """D of a client in nanoseconds, divided by the delay factor; at least 1."""
        known = self._known.get(client)
        if known is None:
            # Two threads may both draw it: they draw the same.
            known = self._known[client] = self._draw_ns(client)
        return known

    def task_duration_ns(self, client: ClientId, forward_passes: int) -> Ns:
        """Duration of one task in nanoseconds.

        Args:
            client: Who does it.
            forward_passes: Passes of the step. They matter only for ``compute_model: per_pass``, which scales the
                compute share of D by them over the passes that D was measured for; the network share stays.
        """
        whole = self.duration_ns(client)
        network = whole - round(whole * self.cfg.compute_frac)
        return max(1, network + self.compute_ns(client, forward_passes))

    def compute_ns(self, client: ClientId, forward_passes: int) -> Ns:
        """Compute share of one task in nanoseconds; arguments as for :meth:`task_duration_ns`."""
        compute = round(self.duration_ns(client) * self.cfg.compute_frac)
        if self.cfg.compute_model == "constant" or not self.cfg.enabled:
            return compute
        reference = self.cfg.reference_passes
        return (compute * forward_passes + reference // 2) // reference

    def _draw_ns(self, client: ClientId) -> Ns:
        if not self.cfg.enabled:
            return OFF_NS
        if self.model is None:
            seconds = _modelled_s(self.cfg, self.seed, client)
        else:
            seconds = self.model.modelled_s(self.cfg, stream(self.seed, "delay", client=client), client)
        return max(1, ns_from_s(seconds / self.cfg.factor))


def build_delays(cfg: DelaysConfig, seed: int, model: DelayModel | None = None) -> ClientDelays:
    """Durations for a run's seed."""
    return ClientDelays(cfg, seed, model)


class DelayModel(Protocol):
    """A distribution of D over clients."""

    def modelled_s(self, cfg: DelaysConfig, source: Stream, client: ClientId) -> float:
        """D in seconds before the factor; ``source`` is the client's own stream."""
        ...


@final
class ParetoDelays(Params):
    """``low_s`` at least, with a power-law tail, cut at ``high_s``: a few clients are very slow."""

    shape: float = Field(1.5, gt=0, allow_inf_nan=False, description="pareto: tail index; smaller = heavier tail")

    def modelled_s(self, cfg: DelaysConfig, source: Stream, client: ClientId) -> float:  # noqa: ARG002 - the protocol's
        """D in seconds before the factor."""
        log_growth = -math.log1p(-float(source.generator().random())) / self.shape
        return cfg.low_s * math.exp(min(log_growth, math.log(cfg.high_s / cfg.low_s)))


@final
class ZipfDelays(Params):
    """``low_s`` times a rank whose probability falls with a power of the rank; no rank leads beyond ``high_s``."""

    exponent: float = Field(1.5, gt=0, le=20, description="zipf: power by which higher ranks are rarer")

    def modelled_s(self, cfg: DelaysConfig, source: Stream, client: ClientId) -> float:  # noqa: ARG002
        """D in seconds before the factor."""
        shares = _zipf_shares(self.exponent, min(_MOST_RANKS, math.floor(cfg.high_s / cfg.low_s)))
        return cfg.low_s * (1 + bisect_right(shares, float(source.generator().random())))


@final
@dataclass(frozen=True)
class RegistryDelays:
    """Measured durations, each at least a nanosecond; ``low_s`` and ``high_s`` do not apply.

    Args:
        seconds: D by client; at least one.
        assign: ``by_id`` = each client its own, so that all must be there; ``draw`` = one of them by the client's
            stream, so that a small registry serves a large population.
        name: What an error calls the registry.
    """

    seconds: Mapping[ClientId, float]
    assign: Literal["by_id", "draw"] = "by_id"
    name: str = "the delay registry"

    def modelled_s(self, cfg: DelaysConfig, source: Stream, client: ClientId) -> float:  # noqa: ARG002
        """D in seconds before the factor.

        Raises:
            ConfigError: If the registry must have this client and has not.
        """
        if self.assign == "draw":
            return self.seconds[self._clients[int(source.generator().integers(len(self._clients)))]]
        if client not in self.seconds:
            raise ConfigError(
                f"{self.name} has no line for client {client}",
                hint="add it, lower clients.num_clients, or let clients draw from the registry (assign: draw)",
                where="delays.registry",
            )
        return self.seconds[client]

    @cached_property
    def _clients(self) -> list[ClientId]:
        return sorted(self.seconds)


def straggler_offset_ns(client: ClientId, spread_s: float) -> Ns:
    """A fixed extra time of a client's messages, spread evenly over ``0..spread_s``.

    It hashes the client alone: the same on both clocks, for every seed and in every version.
    """
    digest = hashlib.blake2b(f"straggler {client}".encode(), digest_size=8).digest()
    return ns_from_s(spread_s) * int.from_bytes(digest, "little") >> 64


@lru_cache(maxsize=8)
def _zipf_shares(exponent: float, num_ranks: int) -> tuple[float, ...]:
    """Cumulative probabilities of ranks 1 to ``num_ranks - 1``; the rest is the last rank's."""
    masses = [rank**-exponent for rank in range(1, num_ranks + 1)]
    whole = math.fsum(masses)
    return tuple(share / whole for share in accumulate(masses[:-1]))


def _modelled_s(cfg: DelaysConfig, seed: int, client: ClientId) -> float:
    """D in seconds before the factor."""
    if cfg.model == "constant":
        return cfg.high_s
    source = stream(seed, "delay", client=client)
    if cfg.model == "uniform":
        return cfg.low_s + (cfg.high_s - cfg.low_s) * float(source.generator().random())
    # Whole seconds, as they were measured.
    seconds = round(math.exp(LOG_MEAN + LOG_SD * float(source.normals(1)[0])))
    return min(max(float(seconds), cfg.low_s), cfg.high_s)
