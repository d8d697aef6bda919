"""Shards of clients: every sample once, the asked-for skew, and always an end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.config.model import PartitionConfig
from fluxctl.data.partition import partition


def equal_labels(num_classes, per_class):
    return np.repeat(np.arange(num_classes), per_class)


def deal(labels, num_clients=100, seed=0, batch_size=8, method="dirichlet", alpha=1.0):
    num_classes = int(labels.max()) + 1 if len(labels) else 2
    cfg = PartitionConfig(method=method, alpha=alpha)
    return partition(labels, num_classes, num_clients, cfg, seed, batch_size=batch_size)


@settings(max_examples=60, deadline=None)
@given(
    per_class=st.lists(st.integers(0, 40), min_size=2, max_size=6),
    num_clients=st.integers(1, 60),
    alpha=st.sampled_from([1e-320, 1e-9, 0.01, 0.1, 1.0, 100.0, 1e9]),
    method=st.sampled_from(["dirichlet", "uniform"]),
    seed=st.integers(0, 2**32),
    batch_size=st.integers(1, 9),
)
def test_every_sample_is_dealt_once_in_equal_quantities(per_class, num_clients, alpha, method, seed, batch_size):
    labels = np.repeat(np.arange(len(per_class)), per_class)
    cfg = PartitionConfig(method=method, alpha=alpha)
    shards = partition(labels, len(per_class), num_clients, cfg, seed, batch_size=batch_size)
    assert len(shards.clients) == num_clients
    assert sorted(np.concatenate(shards.clients).tolist()) == list(range(len(labels)))
    quantities = [len(samples) for samples in shards.clients]
    assert max(quantities) - min(quantities) <= 1
    assert list(shards.empty_clients) == [client for client, quantity in enumerate(quantities) if quantity == 0]
    for client, samples in enumerate(shards.clients):
        assert samples.dtype == np.int64
        counts = np.bincount(labels[samples], minlength=len(per_class))
        assert np.array_equal(shards.class_counts[client], counts)


@pytest.mark.parametrize(
    ("alpha", "expected", "slack"),
    [(0.1, 1.00, 0.005), (1.0, 0.72, 0.03), (100.0, 0.30, 0.01)],
)
def test_the_skew_is_that_of_ag_news_with_a_hundred_clients(alpha, expected, slack):
    """The known medians of the dominant class's share, averaged over seeds since each is a draw of 100 clients."""
    labels = equal_labels(4, 30_000)
    medians = [np.median(deal(labels, alpha=alpha, seed=seed).dominant_shares()) for seed in range(10)]
    assert np.mean(medians) == pytest.approx(expected, abs=slack)


@pytest.mark.feature("B19")
def test_the_label_mix_is_rounded_as_specified():
    """A first client, which finds all labels in stock, takes round(p_l x n) of each, up to the rounding of the sum."""
    labels = equal_labels(4, 25_000)
    shards = deal(labels, num_clients=100, alpha=1.0, seed=5)
    from fluxctl.world.seeds import stream

    mix = stream(5, "partition", client=0).generator().dirichlet([0.25] * 4)
    assert np.abs(shards.class_counts[0] - np.round(mix * 1000)).sum() <= 2


def test_unequal_classes_enter_as_prior():
    labels = np.repeat([0, 1], [9000, 1000])
    counts = deal(labels, num_clients=50, alpha=1000.0).class_counts
    shares = counts[:-1, 0] / counts[:-1].sum(axis=1)  # the last client takes what is left
    assert shares == pytest.approx(np.full(49, 0.9), abs=0.05)


def test_a_strong_skew_on_little_data_ends_and_leaves_nobody_empty():
    """Alpha 0.1, 100 clients, small data once looped for ever or left clients without a sample."""
    shards = deal(equal_labels(4, 50), num_clients=100, alpha=0.1)
    assert shards.empty_clients == ()
    assert {len(samples) for samples in shards.clients} == {2}


@pytest.mark.feature("B19")
def test_more_clients_than_samples_are_reported_by_id():
    shards = deal(equal_labels(2, 2), num_clients=7)
    assert shards.empty_clients == (4, 5, 6)
    assert shards.num_bins(5) == 0
    assert shards.bins(5) == ()
    assert np.isnan(shards.dominant_shares()[5])
    with pytest.raises(ValueError, match="client 5 has no sample"):
        shards.bin_samples(5, 0)


def test_no_sample_at_all_is_no_special_case():
    shards = deal(np.zeros(0, dtype=np.int64), num_clients=3)
    assert shards.empty_clients == (0, 1, 2)
    assert shards.max_bins == 0


@pytest.mark.feature("A28")
@pytest.mark.parametrize("method", ["dirichlet", "uniform"])
def test_shards_follow_from_the_seed(method):
    labels = equal_labels(4, 500)

    def flat(seed):
        return np.concatenate(deal(labels, seed=seed, method=method).clients)

    assert np.array_equal(flat(1), flat(1))
    assert not np.array_equal(flat(1), flat(2))


def test_clients_do_not_share_one_label_mix():
    counts = deal(equal_labels(4, 2000), alpha=1.0).class_counts
    assert len(np.unique(counts.argmax(axis=1))) == 4
    assert len(np.unique(counts, axis=0)) > 80


def test_uniform_shards_mirror_the_prior():
    shares = deal(equal_labels(4, 5000), method="uniform").dominant_shares()
    assert shares.max() < 0.4


def test_bins_cut_a_shard_once_in_its_order():
    shards = deal(equal_labels(4, 50), num_clients=9, batch_size=8)
    for client, samples in enumerate(shards.clients):
        bins = shards.bins(client)
        assert [sample for batch in bins for sample in batch] == samples.tolist()
        assert [len(batch) for batch in bins[:-1]] == [8] * (len(bins) - 1)
        assert 1 <= len(bins[-1]) <= 8
        assert len(bins) == shards.num_bins(client)


def test_bin_numbers_wrap_at_the_clients_own_number_of_bins():
    shards = deal(equal_labels(2, 21), num_clients=2, batch_size=8)
    assert shards.num_bins(0) == 3
    assert shards.bin_samples(0, 7) == shards.bin_samples(0, 1)


def test_a_round_of_the_embedded_default_is_ten_bins():
    shards = deal(equal_labels(4, 2000))
    assert {shards.num_bins(client) for client in range(100)} == {10}
    assert shards.max_bins == 10


def test_mini_batches_mix_a_clients_labels():
    """Samples are dealt label by label; without a shuffle, early bins would hold the first label."""
    labels = equal_labels(4, 2000)
    shards = deal(labels, alpha=1000.0)
    first_bins = [len({int(labels[sample]) for sample in shards.bin_samples(client, 0)}) for client in range(100)]
    assert np.mean(first_bins) > 3


def test_a_million_clients_are_dealt_quickly():
    shards = deal(equal_labels(4, 100), num_clients=1_000_000)
    assert len(shards.empty_clients) == 999_600
