"""Names of data sources, and the one function that loads from any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fluxctl.config.model import DataConfig
from fluxctl.data.corpus import Corpus
from fluxctl.data.synthetic import synthetic_corpus
from fluxctl.data.wordnet import wordnet_corpus
from fluxctl.errors import UnknownNameError
from fluxctl.registry import suggestion

SOURCES: Final[Mapping[str, Callable[[DataConfig, int], Corpus]]] = {
    "wordnet-gloss": wordnet_corpus,
    "synthetic": synthetic_corpus,
}


def source_names() -> tuple[str, ...]:
    """Known values of ``data.source``, sorted."""
    return tuple(sorted(SOURCES))


def load_corpus(data: DataConfig, seed: int = 0) -> Corpus:
    """Load the texts of a data section.

    Args:
        data: Source, classes and counts.
        seed: Seed of the split into train and test. It is fixed: a run's own seed decides who gets which training
            text, not which texts there are.

    Raises:
        UnknownNameError: If there is no such source.
        AssetError: If the source's files are missing or not the pinned ones.
        ConfigError: If the classes or counts do not fit the source.
    """
    if data.source not in SOURCES:
        raise UnknownNameError(
            f"unknown data source '{data.source}'", where="data.source", hint=suggestion(data.source, SOURCES)
        )
    return SOURCES[data.source](data, seed)
