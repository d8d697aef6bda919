"""Generated availability without memory: always, or a coin for each client and slot.

The coin of (client, slot) is a function of (seed, slot, client), so a trace has no end, a million clients cost
nothing, and the states of a whole population at one time are one vectorised draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt

from fluxctl.errors import InvariantError
from fluxctl.types import Availability, ClientId, Ns
from fluxctl.world.availability.states import CODES, Codes, States
from fluxctl.world.seeds import stream

_WORDS_PER_COUNT: Final = 4  # a Philox counter value gives four 64-bit words
_CLIENTS_PER_BLOCK: Final = 1024  # drawn together: making a generator costs as much as a thousand words


@final
@dataclass(frozen=True)
class AlwaysAvailable:
    """Everybody can train at any time."""

    def state(self, client: ClientId, t: Ns) -> Availability:  # noqa: ARG002 - the protocol's
        """State at ``t``."""
        return Availability.AVL_TRAIN

    def next_change(self, client: ClientId, t: Ns) -> Ns | None:  # noqa: ARG002
        """None: there is no change."""
        return None

    def next_available(self, client: ClientId, t: Ns, eligible: States) -> Ns | None:  # noqa: ARG002
        """``t`` itself."""
        return t if Availability.AVL_TRAIN in eligible else None

    def available_ns(self, client: ClientId, t0: Ns, t1: Ns, eligible: States) -> Ns:  # noqa: ARG002
        """The whole span."""
        return t1 - t0 if Availability.AVL_TRAIN in eligible else 0

    def states(self, num_clients: int, t: Ns) -> Codes:  # noqa: ARG002
        """States of the first clients, shape ``(num_clients,)``."""
        return np.full(num_clients, CODES[Availability.AVL_TRAIN], dtype=np.int8)


@final
@dataclass(frozen=True)
class SlotTrace:
    """Each client is unavailable in each slot with the same probability, independently.

    Args:
        seed: The run's seed.
        slot_ns: Length of a slot, at least 1.
        unavailable_frac: True expected share of unavailable time, in [0, 1).
    """

    seed: int
    slot_ns: Ns
    unavailable_frac: float

    def state(self, client: ClientId, t: Ns) -> Availability:
        """State at ``t``."""
        return self._slot_state(client, t // self.slot_ns)

    def next_change(self, client: ClientId, t: Ns) -> Ns | None:
        """The first change after ``t``; found within a few slots, since no state is certain for ever."""
        if self.unavailable_frac == 0:
            return None
        slot = t // self.slot_ns
        now = self._slot_state(client, slot)
        return self._first_slot(client, slot + 1, differing_from=now) * self.slot_ns

    def next_available(self, client: ClientId, t: Ns, eligible: States) -> Ns | None:
        """The first time at or after ``t`` in an eligible state."""
        now = self.state(client, t)
        if now in eligible:
            return t
        possible = {Availability.AVL_TRAIN} | ({Availability.UN_AVL} if self.unavailable_frac > 0 else set())
        return self.next_change(client, t) if possible & eligible else None

    def available_ns(self, client: ClientId, t0: Ns, t1: Ns, eligible: States) -> Ns:
        """Nanoseconds of ``[t0, t1)`` in eligible states; takes time in proportion to the slots of the span."""
        slots = range(t0 // self.slot_ns, -(-t1 // self.slot_ns))
        return sum(
            min(t1, (slot + 1) * self.slot_ns) - max(t0, slot * self.slot_ns)
            for slot in slots
            if self._slot_state(client, slot) in eligible
        )

    def states(self, num_clients: int, t: Ns) -> Codes:
        """States of the first clients at ``t``, shape ``(num_clients,)``."""
        away = _away(self.seed, t // self.slot_ns, 0, num_clients, self.unavailable_frac)
        return np.where(away, CODES[Availability.UN_AVL], CODES[Availability.AVL_TRAIN]).astype(np.int8)

    def _first_slot(self, client: ClientId, slot: int, differing_from: Availability) -> int:
        while self._slot_state(client, slot) is differing_from:
            slot += 1
        return slot

    def _slot_state(self, client: ClientId, slot: int) -> Availability:
        block, place = divmod(client, _CLIENTS_PER_BLOCK)
        away = _block_away(self.seed, slot, block, self.unavailable_frac)[place]
        return Availability.UN_AVL if away else Availability.AVL_TRAIN


@lru_cache(maxsize=4096)  # clients of one population are asked about the same slot, one after the other
def _block_away(seed: int, slot: int, block: int, unavailable_frac: float) -> npt.NDArray[np.bool_]:
    return _away(seed, slot, block * _CLIENTS_PER_BLOCK, _CLIENTS_PER_BLOCK, unavailable_frac)


def _away(seed: int, slot: int, first: ClientId, num_clients: int, unavailable_frac: float) -> npt.NDArray[np.bool_]:
    """Coins of ``num_clients`` clients from ``first``, a multiple of four, on.

    A slot is one draw of one stream and a client is a place in it, reached by a jump of the counter.
    """
    bits = stream(seed, "availability_slot").generator(slot).bit_generator
    if not isinstance(bits, np.random.Philox):
        raise InvariantError("keyed streams are Philox streams")
    words = bits.advance(first // _WORDS_PER_COUNT).random_raw(num_clients)
    return np.asarray(words, dtype=np.uint64) < np.uint64(int(unavailable_frac * 2**64))
