"""The task ``synthetic``: generated text that needs no asset, for tests and for a first look.

Every class prefers a few made-up words of its own, in a stream of words that all classes share, so that a bag of
words tells the classes apart, but not perfectly: some of a class's words are swapped for another class's. The words
of a class follow from its name alone, so adding a class leaves the others' texts nearly as they were.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.config.model import DataConfig
from fluxctl.data.corpus import Corpus, build_corpus, check_classes
from fluxctl.world.seeds import stream

NUM_COMMON_WORDS: Final = 60
NUM_CLASS_WORDS: Final = 6
CLASS_WORD_SHARE: Final = 0.5  # of a text's words
SWAPPED_SHARE: Final = 0.3  # of the class words that come from any class instead: the task's noise
MIN_WORDS: Final = 8
MAX_WORDS: Final = 20
_TRAIN_DRAW: Final = 0
_TEST_DRAW: Final = 1
_SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfgklmnprstvwyz" for vowel in "aeiou")


def synthetic_corpus(data: DataConfig, seed: int) -> Corpus:
    """Generate the configured number of texts for any class names.

    Args:
        data: Classes and counts.
        seed: Seed of the texts; the vocabulary does not depend on it.

    Raises:
        ConfigError: If a class is named twice.
    """
    check_classes(data.classes)
    common = _words("common", NUM_COMMON_WORDS)
    own = np.stack([_words(f"class:{name}", NUM_CLASS_WORDS) for name in data.classes])
    train: dict[str, list[str]] = {}
    test: dict[str, list[str]] = {}
    for label, name in enumerate(data.classes):
        source = stream(seed, f"synthetic:{name}")
        train[name] = _texts(source.generator(_TRAIN_DRAW), data.train_per_class, label, own, common)
        test[name] = _texts(source.generator(_TEST_DRAW), data.test_per_class, label, own, common)
    return build_corpus(train, test)


def _words(purpose: str, count: int) -> npt.NDArray[np.str_]:
    """Made-up three-syllable words, shape ``(count,)``; there are half a million, so that sets hardly ever overlap."""
    rng = stream(0, f"synthetic-words:{purpose}").generator()
    return np.array(["".join(_SYLLABLES[s] for s in syllables) for syllables in rng.integers(80, size=(count, 3))])


def _texts(
    rng: np.random.Generator, count: int, label: int, own: npt.NDArray[np.str_], common: npt.NDArray[np.str_]
) -> list[str]:
    """Generate ``count`` texts of one class.

    Args:
        rng: Generator of this class and split.
        count: How many texts.
        label: Row of ``own`` that the class prefers.
        own: Words of every class, shape ``(num_classes, NUM_CLASS_WORDS)``.
        common: Words of all, shape ``(NUM_COMMON_WORDS,)``, the frequent ones first.
    """
    lengths = rng.integers(MIN_WORDS, MAX_WORDS + 1, size=count)
    total = int(lengths.sum())
    is_swapped = rng.random(total) < SWAPPED_SHARE
    rows = np.where(is_swapped, rng.integers(len(own), size=total), label)
    class_words = own[rows, rng.integers(NUM_CLASS_WORDS, size=total)]
    # The square of a uniform number favours the front of the list, as word frequencies do.
    shared_words = common[(rng.random(total) ** 2 * NUM_COMMON_WORDS).astype(np.int64)]
    words = np.where(rng.random(total) < CLASS_WORD_SHARE, class_words, shared_words)
    return [" ".join(part.tolist()) for part in np.split(words, np.cumsum(lengths)[:-1])] if count else []
