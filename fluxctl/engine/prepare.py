"""From a config to something that can train: texts, shards, cached features, and the learner on top of them.

The frozen prefix of the model is run once over all texts, train and test, and its features are kept on disk; the next
run with the same model, data, split point and text length maps them into memory and never loads the language model.
Features do not depend on the run: not on its seed, its clients, nor the number of threads that computed them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from fluxctl.config.model import Config
from fluxctl.data import (
    Corpus,
    FeatureStore,
    ModelAsset,
    Shards,
    cache_folder,
    cache_key,
    find_model,
    load_corpus,
    partition,
    tokenise,
)
from fluxctl.data.cache import Json
from fluxctl.engine.featurise import Progress, featurise, num_cores
from fluxctl.errors import ConfigError
from fluxctl.learn.features import FeatureSet
from fluxctl.learn.learner import Learner
from fluxctl.learn.model import TINY, Encoder, load_encoder
from fluxctl.learn.split import Suffix, split_encoder

PREFIX_VERSION: Final = 1  # raise it when the same model gives other features, so that old cache entries are not used

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """Everything that a run trains on.

    Args:
        learner: Model and features.
        shards: Which training texts each client owns; no client is empty.
        classes: Label names; a label is an index into them.
        corpus_fingerprint: SHA-256 of the texts and labels.
        model_hash: SHA-256 of the model's files.
        split_point: Last frozen operation, behind which a forward pass starts.
        cache: ``hit``, ``miss``, or ``rebuilt`` if a damaged entry was replaced.
        problems: What went wrong with the cache, for the user; nothing there changes a result.
    """

    learner: Learner
    shards: Shards
    classes: tuple[str, ...]
    corpus_fingerprint: str
    model_hash: str
    split_point: str
    cache: str
    problems: tuple[str, ...] = ()


def prepare_task(config: Config, progress: Progress) -> Task:
    """Load or compute what a run needs.

    From here on the process computes with one core per thread: sums come out differently on two, and whether features
    were cached must not show in any number.

    Args:
        config: The run's config.
        progress: Called with what is being done, how much is done, and the total; from this thread only.

    Raises:
        AssetError: If model or data files are missing or not the pinned ones.
        ConfigError: If the data cannot be dealt so that every client owns a text, or a request does not fit the model
            or data.
    """
    torch.set_num_threads(1)
    corpus = load_corpus(config.data)
    shards = partition(
        corpus.train_labels,
        len(corpus.classes),
        config.clients.num_clients,
        config.partition,
        config.seed,
        batch_size=config.data.batch_size,
    )
    _refuse_empty_clients(config, corpus, shards)
    store = FeatureStore(cache_folder())
    source = _Source(config, corpus, find_model(config.model.name, memo=store.folder / "hashes"), store, progress)
    suffix, split_point = source.suffix()
    values, offsets = source.features(split_point)
    for problem in source.problems:
        log.warning(problem)
    train, test = _split(corpus, values, offsets)
    return Task(
        learner=Learner(suffix, train, test, config.step),
        shards=shards,
        classes=corpus.classes,
        corpus_fingerprint=corpus.fingerprint,
        model_hash=source.model_hash,
        split_point=split_point,
        cache=source.status,
        problems=tuple(source.problems),
    )


@dataclass
class _Source:
    """Suffix and features, each from the cache if it is there, else from the model, which is loaded at most once."""

    config: Config
    corpus: Corpus
    model: ModelAsset
    store: FeatureStore
    progress: Progress
    problems: list[str] = field(default_factory=list)
    status: str = "hit"
    _encoder: Encoder | None = None

    @property
    def model_hash(self) -> str:
        """Hash of the model's files; the tiny model has none, so its sizes stand for it."""
        return self.model.sha256 if self.model.folder else hashlib.sha256(repr(TINY).encode()).hexdigest()

    def suffix(self) -> tuple[Suffix, str]:
        """The trainable end of the model, and the split point that it starts behind."""
        model = self.config.model
        key = self._key(
            kind="suffix",
            adapter_blocks=model.adapter_blocks,
            adapter_dim=model.adapter_dim,
            num_labels=len(self.corpus.classes),
        )
        found = self._load(key)
        if found is not None:
            try:
                return _rebuilt(*found), str(found[1]["split_point"])
            except (KeyError, TypeError, ValueError) as error:  # written by other code under the same version
                self._report(
                    f"the cache entry {self.store.path(key)} describes no model ({error}) and is computed anew"
                )
        prefix, suffix = split_encoder(self._load_encoder())
        tensors, described = suffix.state()
        self._save(key, tensors, {**described, "split_point": prefix.split_point})
        return _rebuilt(tensors, described), prefix.split_point

    def features(self, split_point: str) -> tuple[Tensor, Tensor]:
        """Features of all texts, training texts first: values ``(total_rows, width)`` and offsets ``(n + 1,)``."""
        key = self._key(
            kind="features",
            data=self.corpus.fingerprint,
            split_point=split_point,
            max_len=self.config.model.max_len,
        )
        found = self._load(key)
        if found is not None:
            return found[0]["values"], found[0]["offsets"]
        prefix, _ = split_encoder(self._load_encoder())
        texts = self.corpus.train_texts + self.corpus.test_texts
        tokens = tokenise(texts, self.model.folder, self.config.model.max_len)
        num_workers = self.config.engine.num_workers or num_cores()
        values, offsets = featurise(prefix, tokens, num_workers, self.progress)
        self._save(key, {"values": values, "offsets": offsets}, {"split_point": split_point})
        return values, offsets

    def _key(self, **parts: str | int | tuple[int, ...]) -> str:
        # Another release of torch may round differently: a run's hash must not depend on who filled the cache.
        return cache_key(model=self.model_hash, prefix_version=PREFIX_VERSION, torch=str(torch.__version__), **parts)

    def _load_encoder(self) -> Encoder:
        if self._encoder is None:
            model = self.config.model
            folder = self.model.folder
            self.progress("load model", 0, 1)
            self._encoder = load_encoder(model, len(self.corpus.classes), str(folder) if folder else None)
            longest = len(self._encoder.embeddings.positions)
            if model.max_len > longest:
                raise ConfigError(
                    f"model.max_len ({model.max_len}) exceeds the {longest} tokens of model '{model.name}'",
                    where="model.max_len",
                    hint=f"at most {longest}",
                )
            self.progress("load model", 1, 1)
        return self._encoder

    def _load(self, key: str) -> tuple[dict[str, Tensor], dict[str, Json]] | None:
        found = self.store.load(key)
        if found.problem is not None:
            self._report(found.problem)
        if found.entry is None:
            self.status = "miss" if self.status == "hit" else self.status
            return None
        return {name: torch.from_numpy(array) for name, array in found.entry.arrays.items()}, found.entry.meta

    def _report(self, damage: str) -> None:
        self.problems.append(damage)
        self.status = "rebuilt"

    def _save(self, key: str, tensors: dict[str, Tensor], meta: dict[str, Json]) -> None:
        problem = self.store.save(key, {name: tensor.numpy() for name, tensor in tensors.items()}, meta)
        if problem is not None and problem not in self.problems:
            self.problems.append(problem)


def _rebuilt(tensors: Mapping[str, Tensor], described: Mapping[str, Json]) -> Suffix:
    """A suffix on memory of its own.

    The cold and the warm path both end here. Copies are aligned alike, which matrix products may depend on in their
    last bits, and no longer hold the language model's memory or the cache file.
    """
    return Suffix.from_state({name: tensor.clone() for name, tensor in tensors.items()}, described)


def _split(corpus: Corpus, values: Tensor, offsets: Tensor) -> tuple[FeatureSet, FeatureSet]:
    """Divide features of all texts into train and test; views, not copies."""
    num_train = len(corpus.train_labels)
    border = int(offsets[num_train])
    train = FeatureSet(values[:border], offsets[: num_train + 1], torch.from_numpy(corpus.train_labels))
    test = FeatureSet(values[border:], offsets[num_train:] - border, torch.from_numpy(corpus.test_labels))
    return train, test


def _refuse_empty_clients(config: Config, corpus: Corpus, shards: Shards) -> None:
    if not shards.empty_clients:
        return
    num_clients, num_texts = config.clients.num_clients, len(corpus.train_texts)
    per_class = -(-num_clients // len(corpus.classes))
    raise ConfigError(
        f"{len(shards.empty_clients)} of {num_clients} clients would own no training text (the first is client "
        f"{shards.empty_clients[0]}): there are {num_texts} texts",
        where="clients.num_clients",
        hint=f"use at most {num_texts} clients, or data.train_per_class of at least {per_class}",
    )
