"""Objects to compact JSON (RFC 8259), fast when all numbers are finite and safe when they are not.

The standard library's C encoder is kept ready instead of being rebuilt per call, which ``json.dumps`` does; that is
most of the cost of a small event. It refuses NaN and infinities, and only then :func:`replace_nonfinite` walks the
object, so the usual event pays nothing for the check. This module must not know what an event is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from json import encoder as _stdlib
from typing import Any, Final

import numpy as np

_BUFFER_DEPTH: Final = 0  # the C encoder's indentation level


def _plain(value: object) -> object:
    """Turn what the encoder does not know into what it does; numpy scalars and arrays, sets and other mappings.

    Raises:
        TypeError: If the value has no JSON form.
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"an event cannot hold a {type(value).__name__}: {value!r}")


def _make_encode() -> Callable[[object], str]:
    make_c_encoder: Any = getattr(_stdlib, "c_make_encoder", None)
    if make_c_encoder is None:  # an interpreter without the C accelerator
        return json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False, default=_plain).encode
    markers, indent, sort_keys, skip_keys, allow_nan = None, None, False, False, False
    encoder = make_c_encoder(
        markers, _plain, _stdlib.encode_basestring_ascii, indent, ":", ",", sort_keys, skip_keys, allow_nan
    )

    def encode(value: object) -> str:
        return "".join(encoder(value, _BUFFER_DEPTH))

    return encode


encode: Final = _make_encode()
"""Encode as compact JSON; raises ValueError on NaN or infinity and TypeError on what has no JSON form."""


def replace_nonfinite(value: object, path: str = "") -> tuple[object, list[str]]:
    """Copy ``value`` with None for every NaN and infinity.

    Args:
        value: What :func:`encode` refused.
        path: Name of ``value`` itself; empty at the top.

    Returns:
        The copy, and the dotted paths of what was replaced, for example ``staleness.2``.
    """
    if isinstance(value, float):
        return (value, []) if math.isfinite(value) else (None, [path])
    if value is None or isinstance(value, str | int | Enum):
        return value, []
    prefix = f"{path}." if path else ""
    if isinstance(value, Mapping):
        pairs = {key: replace_nonfinite(item, f"{prefix}{key}") for key, item in value.items()}
        return {key: copy for key, (copy, _) in pairs.items()}, [p for _, found in pairs.values() for p in found]
    if isinstance(value, list | tuple):
        items = [replace_nonfinite(item, f"{prefix}{index}") for index, item in enumerate(value)]
        return [copy for copy, _ in items], [p for _, found in items for p in found]
    return replace_nonfinite(_plain(value), path)
