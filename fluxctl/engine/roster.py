"""Who may be asked now: idle, able to train, believed to be reachable, and not heard from for this triple.

Counts and fingerprints are kept without going over idle clients, except under an availability trace, where beliefs
about all of them are one array operation per selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluxctl.engine.cadence import Triple
from fluxctl.engine.ledger import Ledger, client_hash, set_fingerprint
from fluxctl.types import Availability, ClientId, Ns
from fluxctl.world.availability.states import AVAILABLE, STATES, Codes, States, is_eligible
from fluxctl.world.flight import ClientWorld

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Eligible:
    """The clients that may be asked at one moment.

    Attributes:
        num: How many.
        fingerprint: Of their set, order-free, 64 bits.
        contains: Whether a client is one of them; constant time.
        ids: Their ids, sorted; linear time.
        composition: Believed states of all clients.
    """

    num: int
    fingerprint: int
    contains: Callable[[ClientId], bool]
    ids: Callable[[], npt.NDArray[np.int64]]
    composition: dict[str, int]


class Roster:
    """Keeps track of who may be asked.

    Args:
        ledger: Client states.
        world: Availability and beliefs.
        num_clients: Size of the population, N.
        excluded: Clients that cannot train: no data, or given up for good.
    """

    def __init__(self, ledger: Ledger, world: ClientWorld, num_clients: int, excluded: set[ClientId]) -> None:
        self._ledger = ledger
        self._world = world
        self._num_clients = num_clients
        self._excluded = excluded
        self._stamps: dict[ClientId, Triple] = {}
        self._everyone = set_fingerprint(iter(range(num_clients)))
        self._hashes: npt.NDArray[np.uint64] | None = None

    def stamp(self, client: ClientId, triple: Triple) -> None:
        """``client`` has contributed to ``triple`` and is not asked again for it."""
        self._stamps[client] = triple

    def exclude(self, client: ClientId) -> None:
        """Never ask ``client`` again."""
        self._excluded.add(client)

    @property
    def num_members(self) -> int:
        """Clients that can train at all, now or later."""
        return self._num_clients - len(self._excluded)

    def eligible(self, t: Ns, triple: Triple, besides: tuple[ClientId, ...] = ()) -> Eligible:
        """Who may be asked at ``t`` for ``triple``; clients in ``besides`` are chosen already."""
        return self._believed(t, self._world.eligible, self._barred(triple) | set(besides))

    def evaluable(self, t: Ns) -> Eligible:
        """Who may be asked at ``t`` to evaluate: needs no training state, and counts for no triple."""
        return self._believed(t, AVAILABLE, set(filter(self._ledger.is_idle, self._excluded)))

    def _believed(self, t: Ns, states: States, barred: set[ClientId]) -> Eligible:
        """Idle clients, but for the barred ones, that are believed to be in one of some states."""
        if self._world.sees_everyone:
            composition = {Availability.AVL_TRAIN.value: self._num_clients}
            return self._of_everyone(barred, composition)
        codes = self._world.knowledge.believed_states(self._num_clients, t)
        return self._of_reachable(is_eligible(codes, states), barred, _composition(codes))

    def next_reachable_ns(self, t: Ns, until: Ns, triple: Triple) -> Ns | None:
        """The first time in ``(t, until]`` at which an idle client that cannot be asked now is believed reachable.

        One that can be asked now and was not chosen does not count: to ask again at once would give the same answer.
        """
        if self._world.sees_everyone or t >= until:
            return None
        knowledge, barred = self._world.knowledge, self._barred(triple)
        reachable = is_eligible(knowledge.believed_states(self._num_clients, t), self._world.eligible)
        best: Ns | None = None
        for client in np.flatnonzero(~reachable).tolist():
            if client in barred or not self._ledger.is_idle(client):
                continue
            at = knowledge.believed_next_available(client, t + 1, self._world.eligible, until if best is None else best)
            if at is not None and (best is None or at < best):
                best = at
        return best

    def _barred(self, triple: Triple) -> set[ClientId]:
        """Idle clients that may not be asked: excluded, or stamped for the triple."""
        if any(stamp != triple for stamp in self._stamps.values()):
            self._stamps = {client: stamp for client, stamp in self._stamps.items() if stamp == triple}
        idle = self._ledger.is_idle
        return {c for c in self._excluded if idle(c)} | {c for c in self._stamps if idle(c)}

    def _of_everyone(self, barred: set[ClientId], composition: dict[str, int]) -> Eligible:
        ledger = self._ledger
        return Eligible(
            num=self._num_clients - ledger.num_busy - len(barred),
            fingerprint=(self._everyone - ledger.busy_fingerprint - set_fingerprint(tuple(barred))) & _MASK,
            contains=lambda client: ledger.is_idle(client) and client not in barred,
            ids=lambda: np.flatnonzero(self._without(np.ones(self._num_clients, dtype=bool), barred)).astype(np.int64),
            composition=composition,
        )

    def _of_reachable(
        self, reachable: npt.NDArray[np.bool_], barred: set[ClientId], composition: dict[str, int]
    ) -> Eligible:
        mask = self._without(reachable, barred)
        if self._hashes is None:
            self._hashes = np.array([client_hash(client) for client in range(self._num_clients)], dtype=np.uint64)
        return Eligible(
            num=int(np.count_nonzero(mask)),
            fingerprint=int(np.sum(self._hashes[mask], dtype=np.uint64)),
            contains=lambda client: bool(mask[client]),
            ids=lambda: np.flatnonzero(mask).astype(np.int64),
            composition=composition,
        )

    def _without(self, mask: npt.NDArray[np.bool_], barred: set[ClientId]) -> npt.NDArray[np.bool_]:
        mask[np.fromiter(self._ledger.busy(), dtype=np.int64, count=self._ledger.num_busy)] = False
        mask[np.fromiter(barred, dtype=np.int64, count=len(barred))] = False
        return mask


def _composition(codes: Codes) -> dict[str, int]:
    counts = np.bincount(codes, minlength=len(STATES)).tolist()
    return {state.value: count for state, count in zip(STATES, counts, strict=True) if count}
