"""The task ``wordnet-gloss``: from a noun's definition, tell its lexicographer file.

WordNet sorts its noun synsets into 26 lexicographer files (act, animal, artifact, ...), written by hand, which makes
them honest labels of short real text. A definition that appears under two of them has no single label and is left
out; one that appears twice under the same one is kept once. So no text is in both train and test, and no label is
ambiguous.

Source:
    Miller, WordNet: A Lexical Database for English, 1995; file format: wndb(5WN) of WordNet 3.0.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from fluxctl.config.model import DataConfig
from fluxctl.data.assets import wordnet_nouns
from fluxctl.data.corpus import Corpus, build_corpus, check_classes
from fluxctl.errors import AssetError, ConfigError
from fluxctl.registry import suggestion
from fluxctl.world.seeds import stream

FIRST_NOUN_FILE: Final = 3  # lexicographer files 0-2 hold adjectives and adverbs
# fmt: off
NOUN_CLASSES: Final = (
    "Tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event",
    "feeling", "food", "group", "location", "motive", "object", "person", "phenomenon", "plant",
    "possession", "process", "quantity", "relation", "shape", "state", "substance", "time",
)
# fmt: on
MIN_WORDS: Final = 4  # shorter definitions are mostly bare synonyms


def wordnet_corpus(data: DataConfig, seed: int) -> Corpus:
    """Draw the configured number of definitions of each class.

    A class's definitions are shuffled once; training texts come from the front and test texts from the back, so that
    asking for more of one does not change the other.

    Args:
        data: Classes and counts.
        seed: Seed of the shuffle.

    Raises:
        AssetError: If the database is missing or not the pinned one.
        ConfigError: If a class is unknown, named twice, or has too few definitions.
    """
    check_classes(data.classes)
    for name in data.classes:
        if name not in NOUN_CLASSES:
            raise ConfigError(
                f"unknown class '{name}' of wordnet-gloss", where="data.classes", hint=suggestion(name, NOUN_CLASSES)
            )
    definitions = noun_definitions(wordnet_nouns())
    wanted = data.train_per_class + data.test_per_class
    train: dict[str, list[str]] = {}
    test: dict[str, list[str]] = {}
    for name in data.classes:
        texts = definitions[name]
        if len(texts) < wanted:
            raise _too_few(data, name, {other: len(texts) for other, texts in definitions.items()})
        order = stream(seed, f"wordnet-split:{name}").generator().permutation(len(texts)).tolist()
        train[name] = [texts[i] for i in order[: data.train_per_class]]
        test[name] = [texts[i] for i in order[len(order) - data.test_per_class :]]
    return build_corpus(train, test)


@lru_cache(maxsize=2)
def noun_definitions(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the usable definitions of every noun class, in file order.

    Args:
        path: ``data.noun`` of a WordNet 3.0 database.

    Raises:
        AssetError: If a line is not in WordNet's format; carries the line number.
    """
    owner: dict[str, int] = {}  # case-folded definition -> class, or -1 if several classes share it
    spelling: dict[str, str] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.startswith("  "):  # the licence at the top of the file
                continue
            head, bar, gloss = line.partition(" | ")
            label = _class_of(head) if bar else None
            if label is None:
                raise AssetError(
                    "this is not a line of WordNet's noun file", where=f"{path}:{number}", snippet=line[:80]
                )
            definition = gloss.partition('; "')[0].strip()
            if len(definition.split()) < MIN_WORDS:
                continue
            key = definition.casefold()
            if owner.setdefault(key, label) != label:
                owner[key] = -1
            spelling.setdefault(key, definition)
    found: dict[str, list[str]] = {name: [] for name in NOUN_CLASSES}
    for key, label in owner.items():
        if label >= 0:
            found[NOUN_CLASSES[label]].append(spelling[key])
    return {name: tuple(texts) for name, texts in found.items()}


def _class_of(head: str) -> int | None:
    """Index into :data:`NOUN_CLASSES` from ``00001740 03 n ...``, or None if this is no noun synset."""
    file_number = head[9:11]
    if head[8:9] != " " or not file_number.isdecimal() or head[11:14] != " n ":
        return None
    label = int(file_number) - FIRST_NOUN_FILE
    return label if 0 <= label < len(NOUN_CLASSES) else None


def _too_few(data: DataConfig, name: str, counts: dict[str, int]) -> ConfigError:
    wanted = data.train_per_class + data.test_per_class
    enough = [f"{other} ({count})" for other, count in sorted(counts.items()) if count >= wanted]
    choose = f", or choose among {', '.join(enough)}" if enough else ""
    return ConfigError(
        f"class '{name}' of wordnet-gloss has {counts[name]} usable definitions, but {data.train_per_class} train + "
        f"{data.test_per_class} test = {wanted} are asked for",
        where="data.train_per_class, data.test_per_class",
        hint=f"ask for at most {counts[name]} in all{choose}",
    )
