"""Full payloads: how often a client was sent a whole model, and how often it had that model already.

The stream names a message's bin and round, which stand for the model version that it carries: both move only at a
commit. Shared by the redundancy analysis and the self-checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.telemetry.columns import Ints, Kind, Table
from fluxctl.types import PayloadKind

COMM: Final = {
    "direction": Kind.LABEL,
    "payload": Kind.LABEL,
    "bytes": Kind.INT,
    "peer": Kind.INT,
    "round": Kind.INT,
    "bin": Kind.INT,
}
FULL: Final = (PayloadKind.WEIGHTS.value, PayloadKind.WEIGHTS_AND_GRADIENT.value)


@dataclass(frozen=True)
class FullPayloads:
    """Downloads that carry all weights, by client and model version.

    Attributes:
        clients: Client of each pair of client and version that occurs, ascending, shape ``(n,)``.
        counts: Full payloads of each pair, shape ``(n,)``.
        num_bytes: Bytes of them, shape ``(n,)``.
        num_down: Downloads of any kind.
        down_bytes: Bytes of them.
    """

    clients: Ints
    counts: Ints
    num_bytes: Ints
    num_down: int
    down_bytes: int

    @property
    def num_full(self) -> int:
        """Full payloads sent."""
        return int(self.counts.sum())

    @property
    def num_redundant(self) -> int:
        """Full payloads whose client had been sent that version before."""
        return self.num_full - len(self.counts)

    @property
    def redundant_frac(self) -> float:
        """Share of the full payloads that were redundant; 0 without any."""
        return self.num_redundant / self.num_full if self.num_full else 0.0

    @property
    def redundant_bytes(self) -> int:
        """Bytes of redundant payloads, counting the first of each pair as needed."""
        return int((self.num_bytes - self.num_bytes // np.maximum(self.counts, 1)).sum())

    @property
    def most(self) -> int:
        """Most full payloads that one client got of one version."""
        return int(self.counts.max(initial=0))


def full_payloads(comm: Table) -> FullPayloads:
    """Count full payloads.

    Args:
        comm: The ``comm`` events with the fields of :data:`COMM`.

    Raises:
        AbsentField: If they carry no kind of payload, or no place in the cadence.
    """
    if not len(comm):
        nothing = np.zeros(0, dtype=np.int64)
        return FullPayloads(nothing, nothing, nothing, 0, 0)
    is_down = comm.labels("direction").equals("down")
    kinds = comm.labels("payload")
    is_full = is_down & np.logical_or.reduce([kinds.equals(kind) for kind in FULL])
    sizes = comm.ints("bytes")
    pairs = np.stack([comm.ints(name)[is_full] for name in ("peer", "round", "bin")], axis=1)
    unique, owner, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    num_bytes = np.bincount(owner.reshape(-1), weights=sizes[is_full], minlength=len(unique)).astype(np.int64)
    return FullPayloads(unique[:, 0], counts, num_bytes, int(is_down.sum()), int(sizes[is_down].sum()))
