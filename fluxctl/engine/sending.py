"""What clients are sent: full weights or a delta once per version, and keep-going messages after that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from fluxctl.engine.cadence import Cadence
from fluxctl.engine.payload import Payload, Vector, encode
from fluxctl.engine.weight_delta import pack_delta
from fluxctl.types import ClientId, PayloadKind

#: Versions that the server keeps to make deltas on; a client with an older one is sent everything.
KEPT_VERSIONS: Final = 16


@dataclass(frozen=True, slots=True)
class GlobalModel:
    """What the server would send: weights, and the last aggregate when the bin is guided by it."""

    params: Vector
    guide: Vector | None

    def payload(self, cadence: Cadence) -> Payload:
        """The full message for the current version."""
        if self.guide is None:
            return Payload(PayloadKind.WEIGHTS, *cadence.triple, vectors=(self.params,))
        return Payload(PayloadKind.WEIGHTS_AND_GRADIENT, *cadence.triple, vectors=(self.params, self.guide))


@dataclass(frozen=True, slots=True)
class Message:
    """An encoded message; all clients in one situation are sent the same bytes."""

    data: bytes
    kind: PayloadKind


@dataclass
class WeightSender:
    """Knows what each client has, and encodes what it lacks.

    Args:
        suppresses: Send a keep-going message to a client that has the current version.
        form: Send full weights, or deltas on the version that a client has, where these are shorter.
    """

    suppresses: bool
    form: Literal["full", "delta"] = "full"
    num_suppressed: int = 0
    _held: dict[ClientId, int] = field(default_factory=dict)  # version that each client has
    _versions: dict[int, Vector] = field(default_factory=dict)  # weights of recent versions, oldest first
    _encoded: dict[int | None, Message] = field(default_factory=dict)  # of the current version; by the version held
    _current: int = -1

    def message(self, client: ClientId, cadence: Cadence, model: GlobalModel) -> Message:
        """What ``client`` is sent to work on the current version; taken as received."""
        held = self._held.get(client)
        if self.suppresses and held == cadence.version:
            self.num_suppressed += 1
            return Message(encode(Payload(PayloadKind.KEEP_GOING, *cadence.triple)), PayloadKind.KEEP_GOING)
        self._held[client] = cadence.version
        if self._current != cadence.version:
            self._begin(cadence, model)
        base = held if held in self._versions and held != cadence.version else None
        if base not in self._encoded:
            self._encoded[base] = self._delta(base, cadence, model)
        return self._encoded[base]

    def forget(self, client: ClientId) -> None:
        """``client`` may have lost what it was sent; its next message is a full one."""
        self._held.pop(client, None)

    def _begin(self, cadence: Cadence, model: GlobalModel) -> None:
        """A new version: encode it once, and keep its weights if deltas on it may follow."""
        payload = model.payload(cadence)
        self._current = cadence.version
        self._encoded = {None: Message(encode(payload), payload.kind)}
        if self.form == "delta":
            self._versions[cadence.version] = model.params
            if len(self._versions) > KEPT_VERSIONS:
                del self._versions[next(iter(self._versions))]

    def _delta(self, base: int | None, cadence: Cadence, model: GlobalModel) -> Message:
        """The current version for clients that have version ``base``; everything, where that is shorter."""
        full = self._encoded[None]
        if base is None:
            return full
        body = pack_delta(self._versions[base], model.params, base)
        delta = Message(encode(Payload(PayloadKind.DELTA, *cadence.triple, body=body)), PayloadKind.DELTA)
        return delta if len(delta.data) < len(full.data) else full
