"""Texts, the clients that own them, and the cache of what is expensive to compute from them. No torch here."""

from fluxctl.data.assets import ModelAsset, find_model, minilm_folder, wordnet_nouns
from fluxctl.data.cache import CacheEntry, FeatureStore, Lookup, cache_folder, cache_key
from fluxctl.data.corpus import Corpus
from fluxctl.data.partition import Shards, partition
from fluxctl.data.sources import load_corpus, source_names
from fluxctl.data.tokenise import Tokens, tokenise

__all__ = [
    "CacheEntry",
    "Corpus",
    "FeatureStore",
    "Lookup",
    "ModelAsset",
    "Shards",
    "Tokens",
    "cache_folder",
    "cache_key",
    "find_model",
    "load_corpus",
    "minilm_folder",
    "partition",
    "source_names",
    "tokenise",
    "wordnet_nouns",
]
