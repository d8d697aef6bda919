"""Generated text: deterministic, learnable, not trivial."""

import math
from collections import Counter

import pytest

from fluxctl.config.model import DataConfig
from fluxctl.data.sources import load_corpus


def corpus(classes=("red", "green", "blue", "grey"), train=500, test=100, seed=0):
    data = DataConfig(source="synthetic", classes=classes, train_per_class=train, test_per_class=test)
    return load_corpus(data, seed)


@pytest.mark.feature("B21")
def test_it_generates_what_was_asked_for_and_no_text_twice():
    texts = corpus()
    assert texts.classes == ("red", "green", "blue", "grey")
    assert [texts.train_labels.tolist().count(label) for label in range(4)] == [500] * 4
    assert [texts.test_labels.tolist().count(label) for label in range(4)] == [100] * 4
    assert len({*texts.train_texts, *texts.test_texts}) == 2400


@pytest.mark.feature("B21")
def test_a_bag_of_words_tells_the_classes_apart_but_not_perfectly():
    texts = corpus()
    words = [Counter() for _ in texts.classes]
    for text, label in zip(texts.train_texts, texts.train_labels, strict=True):
        words[label].update(text.split())

    def log_likelihood(text, counts):
        return sum(math.log((counts[word] + 1) / (counts.total() + 200)) for word in text.split())

    right = 0
    for text, label in zip(texts.test_texts, texts.test_labels, strict=True):
        scores = [log_likelihood(text, counts) for counts in words]
        right += scores.index(max(scores)) == label
    assert 0.85 < right / len(texts.test_texts) < 0.97


def test_the_same_request_gives_the_same_texts():
    assert corpus().fingerprint == corpus().fingerprint
    assert corpus().fingerprint != corpus(seed=1).fingerprint
    assert corpus().fingerprint != corpus(train=499).fingerprint


def test_the_test_texts_do_not_depend_on_the_number_of_training_texts():
    assert corpus(train=10).test_texts == corpus(train=500).test_texts


def test_one_text_of_each_class_is_enough():
    assert len(corpus(train=1, test=1).train_texts) == 4
