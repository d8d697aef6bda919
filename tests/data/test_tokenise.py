"""Token ids of both kinds of tokenizer."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.data.assets import minilm_folder
from fluxctl.data.tokenise import TINY_VOCAB_SIZE, tokenise
from fluxctl.errors import AssetError


@pytest.mark.feature("B21")
@given(st.lists(st.text(max_size=60), max_size=5), st.integers(4, 12))
def test_tiny_ids_are_framed_bounded_and_within_the_vocabulary(texts, max_len):
    tokens = tokenise(texts, None, max_len)
    assert len(tokens.ids) == len(texts)
    for ids in tokens.ids:
        assert 2 <= len(ids) <= max_len
        assert (ids[0], ids[-1]) == (1, 2)
        assert np.all((ids[1:-1] >= 4) & (ids[1:-1] < TINY_VOCAB_SIZE))


def test_tiny_words_keep_their_id_in_any_text():
    one, two = tokenise(["The cat, sat", "a cat"], None, 48).ids
    assert one.tolist()[2] == two.tolist()[2]
    assert len(one) == 6  # CLS the cat , sat SEP


def test_tiny_ids_are_the_same_in_every_process():
    """Python's own hash of a string differs from process to process; ours must not."""
    assert tokenise(["federated learning"], None, 48).ids[0].tolist() == EXPECTED_IDS


def test_lengths_match_the_ids():
    tokens = tokenise(["a b c", ""], None, 48)
    assert tokens.lengths().tolist() == [5, 2]
    assert tokenise([], None, 48).lengths().tolist() == []


@pytest.mark.demo
@pytest.mark.feature("B21")
def test_minilm_truncates_to_max_len_special_tokens_included_and_never_pads():
    short, long = tokenise(["a cat", "word " * 100], minilm_folder(), 16).ids
    assert short.tolist() == [101, 1037, 4937, 102]
    assert len(long) == 16
    assert (long[0], long[-1]) == (101, 102)


@pytest.mark.demo
def test_minilm_reads_generated_text():
    (ids,) = tokenise(["komeye sanazo"], minilm_folder(), 48).ids
    assert 100 not in ids  # no unknown token
    assert len(ids) > 4


@pytest.mark.parametrize("content", [None, "{", json.dumps({"version": "1.0"})])
def test_a_broken_tokenizer_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(AssetError, match="tokenizer cannot be read") as caught:
        tokenise(["a"], tmp_path, 16)
    assert caught.value.where == str(tmp_path / "tokenizer.json")


EXPECTED_IDS = [1, 252, 199, 2]
