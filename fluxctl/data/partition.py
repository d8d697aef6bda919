"""Who owns which training texts: label-skewed or uniform shards, and the mini-batches (bins) that they are cut into.

Every draw is keyed by the run's seed and the client, and each sample is dealt exactly once. Dealing is bounded by
construction: a client takes what its label mix asks for as far as it lasts and fills up from what is left, so there
is no drawing again until it fits. A client ends empty only if there are fewer samples than clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluxctl.config.model import PartitionConfig
from fluxctl.world.seeds import stream

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shards:
    """Samples of each client.

    Args:
        clients: Sample ids of each client in the order in which they are cut into bins, shape ``(quantity,)``, int64.
        batch_size: Samples of a bin; a client's last bin may hold fewer.
        class_counts: Samples of each label, shape ``(num_clients, num_classes)``, int64.
    """

    clients: tuple[Ids, ...]
    batch_size: int
    class_counts: Ids

    def num_bins(self, client: int) -> int:
        """Mini-batches of a client; 0 if it has no sample."""
        return -(-len(self.clients[client]) // self.batch_size)

    def bin_samples(self, client: int, bin_index: int) -> tuple[int, ...]:
        """Sample ids of a client's mini-batch ``bin_index``, counted modulo its own number of bins.

        Raises:
            ValueError: If the client has no sample.
        """
        num_bins = self.num_bins(client)
        if num_bins == 0:
            raise ValueError(f"client {client} has no sample, hence no bin")
        start = bin_index % num_bins * self.batch_size
        return tuple(self.clients[client][start : start + self.batch_size].tolist())

    def bins(self, client: int) -> tuple[tuple[int, ...], ...]:
        """All mini-batches of a client, in order; their union is its shard."""
        return tuple(self.bin_samples(client, index) for index in range(self.num_bins(client)))

    @property
    def max_bins(self) -> int:
        """Bins of the client with the most: the length of one round."""
        return max(self.num_bins(client) for client in range(len(self.clients)))

    @property
    def empty_clients(self) -> tuple[int, ...]:
        """Clients without a sample, ascending."""
        return tuple(client for client, samples in enumerate(self.clients) if len(samples) == 0)

    def dominant_shares(self) -> npt.NDArray[np.float64]:
        """Share of each client's most frequent label, shape ``(num_clients,)``; nan for an empty client."""
        totals = self.class_counts.sum(axis=1)
        shares = np.full(len(totals), np.nan)
        np.divide(self.class_counts.max(axis=1), totals, out=shares, where=totals > 0)
        return shares


def partition(
    labels: Ids, num_classes: int, num_clients: int, cfg: PartitionConfig, seed: int, *, batch_size: int
) -> Shards:
    """Deal the training samples to clients.

    Quantities differ by at most one. A shard's order is shuffled when it is dealt and never again.

    Args:
        labels: Label of each sample, shape ``(num_samples,)``.
        num_classes: Number of labels.
        num_clients: Number of clients.
        cfg: Method and concentration.
        seed: The run's seed.
        batch_size: Samples of a bin.
    """
    quantities = np.full(num_clients, len(labels) // num_clients)
    quantities[: len(labels) % num_clients] += 1
    if cfg.method == "uniform":
        clients = _deal_uniform(len(labels), quantities, seed)
    else:
        clients = _deal_dirichlet(labels, num_classes, quantities, cfg.alpha, seed)
    counts = np.zeros((num_clients, num_classes), dtype=np.int64)
    for client, samples in enumerate(clients):
        if len(samples):
            counts[client] = np.bincount(labels[samples], minlength=num_classes)
    return Shards(tuple(clients), batch_size, counts)


def _deal_uniform(num_samples: int, quantities: Ids, seed: int) -> list[Ids]:
    order = stream(seed, "partition-uniform").generator().permutation(num_samples).astype(np.int64)
    ends = np.cumsum(quantities)
    return [order[end - quantity : end] for end, quantity in zip(ends, quantities, strict=True)]


def _deal_dirichlet(labels: Ids, num_classes: int, quantities: Ids, alpha: float, seed: int) -> list[Ids]:
    """Deal by a label mix per client, p ~ Dir(alpha x class prior).

    Source:
        Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019, arXiv:1909.06335.
    """
    pools = [
        stream(seed, f"partition-pool:{label}").generator().permutation(np.flatnonzero(labels == label))
        for label in range(num_classes)
    ]
    sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
    prior = sizes / max(len(labels), 1)
    num_taken = np.zeros(num_classes, dtype=np.int64)
    clients: list[Ids] = []
    nobody = np.zeros(0, dtype=np.int64)
    for client, quantity in enumerate(quantities.tolist()):
        if quantity == 0:
            clients.append(nobody)
            continue
        rng = stream(seed, "partition", client=client).generator()
        take = _label_counts(quantity, _label_mix(prior, alpha, rng), sizes - num_taken, rng)
        shard = np.concatenate([pool[start : start + n] for pool, start, n in zip(pools, num_taken, take, strict=True)])
        num_taken += take
        clients.append(rng.permutation(shard))
    return clients


def _label_mix(prior: npt.NDArray[np.float64], alpha: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw p ~ Dir(alpha x prior), shape ``(num_classes,)``; a label without samples gets 0."""
    mix = np.zeros(len(prior))
    present = prior > 0
    # numpy's Dirichlet needs normal numbers; at 1e-300 the draw is one-hot in any case.
    mix[present] = rng.dirichlet(np.maximum(alpha * prior[present], 1e-300))
    return mix


def _label_counts(quantity: int, mix: npt.NDArray[np.float64], left: Ids, rng: np.random.Generator) -> Ids:
    """How many samples of each label a client takes, shape ``(num_classes,)``.

    Args:
        quantity: Samples of this client, at most ``left.sum()``.
        mix: Its label mix p.
        left: Samples of each label not yet dealt.
        rng: Generator of this client.

    Returns:
        round(p_l x quantity) of each label as far as it lasts, made up to ``quantity`` from a random draw among all
        samples left; an excess from rounding is taken off the most frequent labels.
    """
    take = np.minimum(np.round(mix * quantity).astype(np.int64), left)
    while take.sum() > quantity:  # rounding adds at most half a sample per label, so this is short
        take[np.argmax(take)] -= 1
    missing = quantity - int(take.sum())
    if missing > 0:
        take += rng.multivariate_hypergeometric(left - take, missing)
    return take
