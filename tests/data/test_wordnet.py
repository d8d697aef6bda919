"""Reading WordNet's noun file, and the task made of it."""

import numpy as np
import pytest

from fluxctl.config.model import DataConfig
from fluxctl.data import wordnet
from fluxctl.data.assets import minilm_folder, wordnet_nouns
from fluxctl.data.sources import load_corpus
from fluxctl.data.tokenise import tokenise
from fluxctl.errors import AssetError, ConfigError

LICENCE = "  1 This software and database is being provided to you  \n"


def line(file_number, gloss):
    return f"00001740 {file_number:02d} n 01 entity 0 001 ~ 00001930 n 0000 | {gloss}  \n"


@pytest.fixture
def nouns(tmp_path):
    def write(*lines):
        path = tmp_path / f"data{len(list(tmp_path.iterdir()))}.noun"
        path.write_text(LICENCE + "".join(lines))
        return path

    return write


@pytest.mark.feature("B21")
def test_the_definition_is_the_gloss_before_the_first_example(nouns):
    path = nouns(
        line(4, 'the act of going; away; "we saw it; all of it"; "again"'), line(6, "a thing that | cuts well")
    )
    found = wordnet.noun_definitions(path)
    assert found["act"] == ("the act of going; away",)
    assert found["artifact"] == ("a thing that | cuts well",)


def test_short_definitions_are_left_out(nouns):
    assert wordnet.noun_definitions(nouns(line(4, "one two three"), line(4, "one two three four")))["act"] == (
        "one two three four",
    )


def test_a_definition_of_two_classes_is_dropped_and_a_repeated_one_kept_once(nouns):
    path = nouns(
        line(4, "shared by act and artifact"),
        line(6, "Shared by act and artifact"),
        line(4, "shared by act and artifact"),
        line(18, "a person twice as fast"),
        line(18, "a person twice as fast"),
    )
    found = wordnet.noun_definitions(path)
    assert found["act"] == found["artifact"] == ()
    assert found["person"] == ("a person twice as fast",)


@pytest.mark.parametrize("bad", ["00001740 03 n 01 entity\n", "00001740 02 n 01 x | a b c d\n", "garbage | a b c d\n"])
def test_a_line_in_another_format_is_named(nouns, bad):
    path = nouns(line(4, "one two three four"), bad)
    with pytest.raises(AssetError, match="not a line of WordNet") as caught:
        wordnet.noun_definitions(path)
    assert caught.value.where == f"{path}:3"


def test_the_classes_are_the_noun_files_of_wordnet():
    numbered = {name: number for number, name in enumerate(wordnet.NOUN_CLASSES, start=wordnet.FIRST_NOUN_FILE)}
    known = {
        "Tops": 3,
        "act": 4,
        "animal": 5,
        "artifact": 6,
        "communication": 10,
        "person": 18,
        "plant": 20,
        "time": 28,
    }
    assert known.items() <= numbered.items()
    assert len(numbered) == 26


@pytest.mark.demo
@pytest.mark.feature("B21")
def test_the_embedded_default_is_as_described():
    corpus = load_corpus(DataConfig())
    assert corpus.classes == ("artifact", "person", "act", "communication")
    assert np.bincount(corpus.train_labels).tolist() == [2000] * 4
    assert np.bincount(corpus.test_labels).tolist() == [250] * 4
    assert len({text.casefold() for text in (*corpus.train_texts, *corpus.test_texts)}) == 9000
    assert min(len(text.split()) for text in corpus.train_texts) >= 4
    assert "a railway having a single track" in corpus.train_texts
    lengths = tokenise(corpus.train_texts, minilm_folder(), 48).lengths()
    assert np.median(lengths) == 14
    assert np.percentile(lengths, 95) == pytest.approx(30, abs=1)


@pytest.mark.demo
def test_every_class_of_the_pinned_database_is_found():
    found = wordnet.noun_definitions(wordnet_nouns())
    assert min(len(texts) for texts in found.values()) == 38  # motive
    assert sum(len(texts) for texts in found.values()) > 70_000


@pytest.mark.demo
def test_asking_for_more_training_texts_changes_no_test_text():
    small, large = (load_corpus(DataConfig(train_per_class=num, test_per_class=50)) for num in (100, 500))
    assert small.test_texts == large.test_texts
    assert set(small.train_texts) < set(large.train_texts)


@pytest.mark.demo
def test_the_corpus_is_reproducible():
    fingerprint = load_corpus(DataConfig()).fingerprint
    assert load_corpus(DataConfig()).fingerprint == fingerprint
    assert load_corpus(DataConfig(classes=("person", "artifact", "act", "communication"))).fingerprint != fingerprint


@pytest.mark.demo
def test_too_few_definitions_are_told_with_the_numbers():
    with pytest.raises(
        ConfigError, match=r"'motive' of wordnet-gloss has 38 usable definitions, but 2000 train \+ 250 test = 2250"
    ) as caught:
        load_corpus(DataConfig(classes=("artifact", "motive")))
    assert "at most 38" in caught.value.hint
    assert "person (10574)" in caught.value.hint
    assert "feeling" not in caught.value.hint


def test_an_unknown_class_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="unknown class 'artefact'") as caught:
        load_corpus(DataConfig(classes=("artefact", "person")))
    assert caught.value.hint == "did you mean 'artifact'?"
    assert caught.value.where == "data.classes"
