"""How long a client takes: one modelled duration D per client, constant over its tasks.

D stands for compute and network together, as measured on real devices; the compute share can be scaled by the forward
passes of a step. A client's D is a function of (seed, client), drawn when it is first asked for, so a million idle
clients cost nothing. Results are integer nanoseconds, equal on both clocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from fluxctl.config.model import DelaysConfig
from fluxctl.types import NS_PER_S, ClientId, Ns, ns_from_s
from fluxctl.world.seeds import stream

LOG_MEAN: Final = 2.25  # of D in seconds, over 300 measured clients
LOG_SD: Final = 0.735
OFF_NS: Final[Ns] = NS_PER_S // 1000  # a task without modelled delay still takes time, so that causes precede effects


@dataclass(frozen=True)
class ClientDelays:
    """Durations of all clients of a run.

    Args:
        cfg: Model, bounds, factor and compute share.
        seed: The run's seed.
    """

    cfg: DelaysConfig
    seed: int
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
        if self.cfg.compute_model == "constant" or not self.cfg.enabled:
            return whole
        compute = round(whole * self.cfg.compute_frac)
        reference = self.cfg.reference_passes
        return max(1, whole - compute + (compute * forward_passes + reference // 2) // reference)

    def _draw_ns(self, client: ClientId) -> Ns:
        if not self.cfg.enabled:
            return OFF_NS
        return max(1, ns_from_s(_modelled_s(self.cfg, self.seed, client) / self.cfg.factor))


def build_delays(cfg: DelaysConfig, seed: int) -> ClientDelays:
    """Durations for a run's seed."""
    return ClientDelays(cfg, seed)


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
