"""Availability traces by description: what a file under ``presets/traces`` says, and the trace that it builds.

Reading files is not this package's business: an imported trace comes in as timelines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from fluxctl.errors import ConfigError
from fluxctl.registry import Params
from fluxctl.types import ClientId, ns_from_s
from fluxctl.world.availability.calibration import Variant
from fluxctl.world.availability.mobiperf import mobiperf_trace
from fluxctl.world.availability.recorded import RecordedTrace, missing_clients
from fluxctl.world.availability.synthetic import AlwaysAvailable, SlotTrace
from fluxctl.world.availability.timeline import Exhaustion, Timeline
from fluxctl.world.availability.trace import Trace


class TraceSpec(Params):
    """One availability trace."""

    description: str = Field(description="what the trace is like, one sentence")
    kind: Literal["always", "slots", "mobiperf", "file"] = Field(description="always | slots | mobiperf | file")
    slot_s: float = Field(600.0, gt=0, allow_inf_nan=False, description="slots: length of a slot in seconds")
    unavailable_frac: float = Field(
        0.0, ge=0, le=0.99, description="slots: true expected share of time that a client is unavailable"
    )
    variant: Annotated[Variant, Strict(False)] | None = Field(
        None, description="mobiperf: 2st, 3st_50 or 3st_75; who may evaluate"
    )
    path: str | None = Field(None, description="file: CSV or JSON Lines of client, t_s, state")
    horizon_s: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="file: end of the data in seconds; null = its latest time"
    )
    exhaustion: Annotated[Exhaustion, Strict(False)] = Field(
        Exhaustion.WRAP, description="after the end of mobiperf or a file: wrap = start over; hold = last state; stop"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.variant is None) == (self.kind == "mobiperf"):
            raise ValueError("variant is needed for kind 'mobiperf' and has no meaning for others")
        if (self.path is None) == (self.kind == "file"):
            raise ValueError("path is needed for kind 'file' and has no meaning for others")
        return self


def build_trace(spec: TraceSpec, seed: int, timelines: Mapping[ClientId, Timeline] | None = None) -> Trace:
    """The trace of a description.

    Args:
        spec: What kind.
        seed: The run's seed; an imported trace ignores it.
        timelines: Of ``kind: file``, what ``fluxctl.data.traces`` read from ``spec.path``.
    """
    if spec.kind == "file":
        if not timelines:
            raise ConfigError("the availability trace has no client", where=spec.path or "availability.trace")
        return RecordedTrace.of(timelines, spec.path or "the trace")
    if spec.variant is not None:
        return mobiperf_trace(seed, spec.variant, spec.exhaustion)
    if spec.kind == "slots" and spec.unavailable_frac > 0:
        return SlotTrace(seed, max(1, ns_from_s(spec.slot_s)), spec.unavailable_frac)
    return AlwaysAvailable()


def require_clients(timelines: Mapping[ClientId, Timeline], num_clients: int, name: str) -> None:
    """Check that an imported trace knows every client of a run.

    Raises:
        ConfigError: Naming those it does not know.
    """
    missing = [client for client in range(num_clients) if client not in timelines]
    if missing:
        raise missing_clients(missing, name)
