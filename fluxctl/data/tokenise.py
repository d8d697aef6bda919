"""Texts to token ids. The tokenizer belongs to the model, not to the data, so any source works with any model.

Models from a folder use their own ``tokenizer.json`` through the ``tokenizers`` package. The tiny model has no files:
its words are hashed into a small vocabulary. Neither needs transformers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxctl.errors import AssetError

TINY_VOCAB_SIZE: Final = 512
TINY_CLS_ID: Final = 1
TINY_SEP_ID: Final = 2
TINY_FIRST_WORD_ID: Final = 4  # 0 pads, 3 stands for unknown words, which a hashed vocabulary does not have
_WORD: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Tokens:
    """Token ids of texts, special tokens included.

    Args:
        ids: One array per text, shape ``(num_tokens,)``, int64; never empty.
    """

    ids: tuple[npt.NDArray[np.int64], ...]

    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text, shape ``(num_texts,)``."""
        return np.array([len(ids) for ids in self.ids], dtype=np.int64)


def tokenise(texts: Sequence[str], folder: Path | None, max_len: int) -> Tokens:
    """Tokenise texts for a model.

    Args:
        texts: What to tokenise.
        folder: Model folder with a ``tokenizer.json``; None = the tiny model.
        max_len: Tokens kept of each text, special tokens included.

    Raises:
        AssetError: If the folder's tokenizer cannot be read.
    """
    if folder is None:
        return Tokens(tuple(_tiny_ids(text, max_len) for text in texts))
    from tokenizers import Tokenizer  # here: a warm start and the tiny model do without it

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise AssetError(
            f"the model's tokenizer cannot be read: {error}",
            where=str(path),
            hint="save the fast tokenizer there with save_pretrained of transformers",
        ) from None
    tokenizer.enable_truncation(max_length=max_len)
    tokenizer.no_padding()
    return Tokens(tuple(np.array(encoding.ids, dtype=np.int64) for encoding in tokenizer.encode_batch(list(texts))))


def _tiny_ids(text: str, max_len: int) -> npt.NDArray[np.int64]:
    words = _WORD.findall(text.lower())[: max_len - 2]
    return np.array([TINY_CLS_ID, *map(_tiny_word_id, words), TINY_SEP_ID], dtype=np.int64)


@lru_cache(maxsize=1 << 16)
def _tiny_word_id(word: str) -> int:
    number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
    return TINY_FIRST_WORD_ID + number % (TINY_VOCAB_SIZE - TINY_FIRST_WORD_ID)
