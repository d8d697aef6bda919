"""Labelled texts, whatever they come from, and the errors that every source shares.

A corpus is a function of the data section alone. Its split into train and test is drawn from fixed keyed streams,
never from the seed of a run: runs over several seeds are then judged on the same test texts, and features cached for
one serve the others.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluxctl.errors import ConfigError


@dataclass(frozen=True)
class Corpus:
    """Texts of a classification task.

    Args:
        classes: Label names; a label is an index into them.
        train_texts: Training texts.
        train_labels: Their labels, shape ``(num_train,)``, int64.
        test_texts: Test texts; none of them is a training text.
        test_labels: Their labels, shape ``(num_test,)``, int64.
        fingerprint: SHA-256, in hex, of everything above.
    """

    classes: tuple[str, ...]
    train_texts: tuple[str, ...]
    train_labels: npt.NDArray[np.int64]
    test_texts: tuple[str, ...]
    test_labels: npt.NDArray[np.int64]
    fingerprint: str


def build_corpus(train: dict[str, list[str]], test: dict[str, list[str]]) -> Corpus:
    """Join the texts of each class into a corpus.

    Args:
        train: Training texts by class; the order of the keys numbers the labels.
        test: Test texts by class, same keys in the same order.
    """
    classes = tuple(train)
    train_texts, train_labels = _join(train.values())
    test_texts, test_labels = _join(test.values())
    digest = hashlib.sha256()
    for texts in (classes, train_texts, test_texts):
        digest.update(struct.pack("<q", len(texts)))
        for text in texts:
            encoded = text.encode()
            digest.update(struct.pack("<q", len(encoded)) + encoded)  # lengths keep ("ab", "c") apart from ("a", "bc")
    for labels in (train_labels, test_labels):
        digest.update(labels.astype("<i8", copy=False).tobytes())
    return Corpus(classes, train_texts, train_labels, test_texts, test_labels, digest.hexdigest())


def check_classes(classes: tuple[str, ...]) -> None:
    """Refuse a class that is named twice.

    Raises:
        ConfigError: With the name.
    """
    twice = sorted({name for name in classes if classes.count(name) > 1})
    if twice:
        raise ConfigError(f"class '{twice[0]}' is named twice", where="data.classes", hint="name each class once")


def _join(groups: Iterable[list[str]]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    texts: list[str] = []
    labels: list[int] = []
    for label, group in enumerate(groups):
        texts += group
        labels += [label] * len(group)
    return tuple(texts), np.array(labels, dtype=np.int64)
