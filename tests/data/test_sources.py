"""The one entrance to all sources."""

import pytest

from fluxctl.config.model import DataConfig
from fluxctl.data import load_corpus, source_names
from fluxctl.data.corpus import build_corpus
from fluxctl.errors import ConfigError, UnknownNameError


def test_an_unknown_source_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown data source 'syntetic'") as caught:
        load_corpus(DataConfig(source="syntetic"))
    assert caught.value.hint == "did you mean 'synthetic'?"
    assert caught.value.where == "data.source"


def test_the_known_sources_are_listed():
    assert source_names() == ("synthetic", "wordnet-gloss")


@pytest.mark.parametrize("source", source_names())
def test_a_class_named_twice_is_refused_by_every_source(source):
    with pytest.raises(ConfigError, match="'act' is named twice"):
        load_corpus(DataConfig(source=source, classes=("act", "person", "act")))


def test_the_fingerprint_sees_where_texts_begin_and_end():
    empty = {"x": ["t"], "y": ["u"]}
    joined = build_corpus({"x": ["ab", "c"], "y": []}, empty)
    assert joined.fingerprint != build_corpus({"x": ["a", "bc"], "y": []}, empty).fingerprint
    assert joined.fingerprint != build_corpus({"x": ["ab"], "y": ["c"]}, empty).fingerprint
    assert joined.fingerprint == build_corpus({"x": ["ab", "c"], "y": []}, empty).fingerprint
