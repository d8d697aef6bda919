"""Class counts behind the commits of a run, and the evaluations that followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxctl.analyses.classmix import bin_counts, skew
from fluxctl.config.model import Config, PartitionConfig
from fluxctl.data import Shards
from fluxctl.data import partition as deal
from fluxctl.telemetry.columns import Columns, Floats, Ints, Kind, Wanted

WANTED: Final[Wanted] = {
    "agg_eval": {"version": Kind.INT, "test_accuracy": Kind.FLOAT, "predicted_counts": Kind.INTS},
    "agg_round": {
        "cycle_bin": Kind.INT,
        "commit_reason": Kind.LABEL,
        "contributing_trainers": Kind.INTS,
        "staleness": Kind.INTS,
    },
}


@dataclass(frozen=True)
class Dealt:
    """A training set as it was dealt.

    Attributes:
        shards: Who owns which text.
        bins: Class counts of the mini-batches of each client.
        whole: Class counts of the training set, shape ``(num_classes,)``.
    """

    shards: Shards
    bins: dict[int, Ints]
    whole: Ints

    @classmethod
    def of(cls, config: Config, labels: Ints, alpha: float | None = None) -> Dealt:
        """Deal as a run's configuration says, or with another alpha."""
        num_classes = len(config.data.classes)
        how = config.partition if alpha is None else PartitionConfig(method="dirichlet", alpha=alpha)
        num_clients, size = config.clients.num_clients, config.data.batch_size
        shards = deal(labels, num_classes, num_clients, how, config.seed, batch_size=size)
        return cls(shards, bin_counts(shards, labels, num_classes), np.bincount(labels, minlength=num_classes))

    def task_counts(self, client: int, bin_index: int, *, whole_shard: bool = False) -> Ints:
        """Class counts of what a client trains on in a bin, shape ``(num_classes,)``."""
        bins = self.bins[client]
        return np.asarray(bins.sum(axis=0) if whole_shard else bins[bin_index % len(bins)])


@dataclass(frozen=True)
class Cohorts:
    """The commits of a run and what came of them.

    Attributes:
        counts: Class counts of the samples behind each commit, shape ``(n, num_classes)``.
        skews: Their skew, shape ``(n,)``.
        drops: Accuracy before each commit less accuracy after it, shape ``(n,)``; nan where it is not known.
        dominance: Share of the most frequent predicted class after it, shape ``(n,)``.
        predicted: That class, shape ``(n,)``; -1 where it is not known.
    """

    counts: Ints
    skews: Floats
    drops: Floats
    dominance: Floats
    predicted: Ints


def commit_cohorts(config: Config, dealt: Dealt, columns: Columns) -> Cohorts:
    """Class counts of every commit's updates, over all iterations of its bin, and the evaluation after it."""
    num_classes = len(config.data.classes)
    cycles, evaluations = columns["agg_round"], columns["agg_eval"]
    counts = np.zeros((0, num_classes), dtype=np.int64)
    if len(cycles) and "commit_reason" in cycles:
        commits = cycles.labels("commit_reason").codes >= 0
        counts = np.array(list(_cohort_counts(config, dealt, columns, commits)), dtype=np.int64)
    by_version = np.full(len(counts) + 1, np.nan)
    dominance, predicted = by_version.copy(), np.full(len(by_version), -1)
    if len(evaluations):
        shares = evaluations.lists("predicted_counts")
        accuracies = evaluations.numbers("test_accuracy").tolist()
        for row, version in enumerate(evaluations.ints("version").tolist()):
            if 0 <= version < len(by_version):
                by_version[version] = accuracies[row]
                guesses = shares[row]
                if guesses.sum() > 0:
                    dominance[version] = guesses.max() / guesses.sum()
                    predicted[version] = int(guesses.argmax())
    return Cohorts(counts, skew(counts, dealt.whole), -np.diff(by_version), dominance[1:], predicted[1:])


def _cohort_counts(config: Config, dealt: Dealt, columns: Columns, commits: NDArray[np.bool_]) -> Iterator[Ints]:
    cycles = columns["agg_round"]
    clients, ages = cycles.lists("contributing_trainers"), cycles.lists("staleness")
    whole_shard = config.step.estimator == "local_sgd" and config.step.local_scope == "shard"
    bin_of: list[int] = []  # by model version
    total = np.zeros(len(dealt.whole), dtype=np.int64)
    for row, bin_index in enumerate(cycles.ints("cycle_bin").tolist()):
        if not bin_of or commits[row - 1]:
            bin_of.append(bin_index)
        for client, age in zip(clients[row].tolist(), ages[row].tolist(), strict=True):
            # a stale update was computed on the bin of the version that it was dispatched with
            then = bin_of[max(0, len(bin_of) - 1 - max(0, int(age)))]
            total = total + dealt.task_counts(int(client), then, whole_shard=whole_shard)
        if commits[row]:
            yield total
            total = np.zeros(len(dealt.whole), dtype=np.int64)
