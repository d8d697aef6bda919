"""Builds the modelled world of a run from its configuration: delays, trace, beliefs, links."""

from __future__ import annotations

from pathlib import Path

from fluxctl.config.model import AvailabilityConfig, Config, DelaysConfig
from fluxctl.data.trace_presets import load_trace_spec
from fluxctl.data.traces import load_trace, read_delay_registry
from fluxctl.errors import ConfigError
from fluxctl.types import ns_from_s
from fluxctl.world.availability.states import TaskKind, eligible_states
from fluxctl.world.bandwidth import BandwidthParams, build_bandwidth
from fluxctl.world.delays import ClientDelays, DelayModel, ParetoDelays, RegistryDelays, ZipfDelays, build_delays
from fluxctl.world.flight import ClientWorld
from fluxctl.world.knowledge import KnowledgeParams, build_knowledge

_BACK_PROPAGATION = ("backprop", "local_sgd")


def build_world(config: Config) -> ClientWorld:
    """Clients as a run meets them.

    Raises:
        ConfigError: If a trace or registry file is not right or lacks a client.
        UnknownNameError: If there is no such trace.
    """
    trace = load_trace(load_trace_spec(config.availability.trace), config.seed, config.clients.num_clients)
    uses_gradients = config.step.estimator in _BACK_PROPAGATION
    task = TaskKind.BACK_PROPAGATION if uses_gradients else TaskKind.FORWARD_GRADIENT
    return ClientWorld(
        delays=client_delays(config),
        trace=trace,
        knowledge=build_knowledge(knowledge_params(config.availability), trace),
        bandwidth=build_bandwidth(BandwidthParams(**config.links.model_dump()), config.seed),
        eligible=eligible_states(task),
        on_unavailable=config.availability.on_unavailable,
        straggler_spread_s=config.delays.straggler_spread_s,
        abandon_after_ns=ns_from_s(config.engine.abandon_after_s),
        evicts=config.availability.evict and config.availability.knowledge != "unaware",
    )


def knowledge_params(cfg: AvailabilityConfig) -> KnowledgeParams:
    """The knowledge policy of a run, as its own parameters."""
    return KnowledgeParams(
        policy=cfg.knowledge,
        num_states=cfg.num_states,
        notify_latency_s=cfg.notify_latency_s,
        heartbeat_every_s=cfg.heartbeat_every_s,
        allowed_misses=cfg.allowed_misses,
    )


def client_delays(config: Config) -> ClientDelays:
    """Modelled durations of a run's clients."""
    return build_delays(config.delays, config.seed, _delay_model(config.delays))


def _delay_model(cfg: DelaysConfig) -> DelayModel | None:
    if cfg.model == "pareto":
        return ParetoDelays(shape=cfg.pareto_shape)
    if cfg.model == "zipf":
        return ZipfDelays(exponent=cfg.zipf_exponent)
    if cfg.model != "registry":
        return None
    if cfg.registry is None:
        raise ConfigError(
            "delays.model 'registry' needs a file of measured durations",
            where="delays.registry",
            hint="set delays.registry to a CSV file of client, duration_s",
        )
    return RegistryDelays(read_delay_registry(Path(cfg.registry)), assign=cfg.registry_assign, name=cfg.registry)
