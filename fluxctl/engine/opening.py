"""Reading updates: a gradient as it is, a described one rebuilt."""

from __future__ import annotations

from dataclasses import replace

from fluxctl.config.model import Config
from fluxctl.engine.payload import Payload, decode, reply_bytes, update_bytes
from fluxctl.engine.seed_scalar import checksum_of, seed_scalar_bytes, unpack_seed_scalar
from fluxctl.errors import InvariantError
from fluxctl.learn.rebuild import num_described, rebuild
from fluxctl.types import PayloadKind
from fluxctl.world.seeds import Stream


class UpdateOpener:
    """Decodes what clients send.

    Args:
        config: The run's configuration.
        num_params: Length d of a gradient.

    Attributes:
        num_bytes: Size of every update of the run.
    """

    def __init__(self, config: Config, num_params: int) -> None:
        self._step = config.step
        self._num_params = num_params
        self._last: tuple[bytes | None, Payload] = (None, Payload(PayloadKind.MEASUREMENT, 0, 0, 0))
        is_described = config.messages.update == "seed_scalar"
        self.num_bytes = (
            reply_bytes(seed_scalar_bytes(num_described(config.step))) if is_described else update_bytes(num_params)
        )

    def __call__(self, data: bytes) -> Payload:
        """The update with its gradient.

        Raises:
            PayloadError: If the bytes are not exactly one message.
            InvariantError: If a rebuilt gradient is not the one that the client had.
        """
        if data is self._last[0]:  # in a plan, all updates are the same bytes
            return self._last[1]
        payload = self._open(data)
        self._last = (data, payload)
        return payload

    def _open(self, data: bytes) -> Payload:
        payload = decode(data)
        if payload.kind is not PayloadKind.SEED_SCALAR:
            return payload
        described = unpack_seed_scalar(payload.body)
        source = Stream(described.key)
        gradient = rebuild(self._num_params, source, described.draws, described.jvps, self._step).numpy()
        if checksum_of(gradient) != described.checksum:
            raise InvariantError("an update that was described by its seed is not what its client computed")
        return replace(payload, vectors=(gradient,))
