"""Durations as people write them, and as they are told back.

``2h``, ``90s``, ``0.5h``, ``1d2h`` or plain seconds; the largest unit first and each once, so that ``2h1d`` or ``1h1h``
are slips of the pen and no sums.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Final

from fluxctl.errors import ConfigError

_UNITS: Final = {"d": 86400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|min|[dhms])\s*")
_HINT: Final = "for example 48h, 90s, 0.5h, 1d2h, or 3600 for seconds"
_LONGEST_S: Final = 100 * 365 * 86400.0  # an engine clock counts nanoseconds in 63 bits


def parse_duration(text: str, where: str | None = None) -> float:
    """Read a duration.

    Args:
        text: ``48h``, ``90s``, ``1d2h``, ``1.5h``, or plain seconds.
        where: What an error names as its place.

    Returns:
        Seconds, greater than 0.

    Raises:
        ConfigError: If it is nothing of that kind.
    """
    compact = text.strip().lower()
    try:
        value = float(compact)
    except ValueError:
        value = _sum_of_spans(text, compact, where)
    if not math.isfinite(value):
        raise ConfigError(f"'{text}' is not a duration", where=where, hint=_HINT)
    if value <= 0:
        raise ConfigError(f"a duration must be longer than nothing, got '{text}'", where=where, hint=_HINT)
    if value > _LONGEST_S:
        raise ConfigError(f"'{text}' is longer than 100 years", where=where, hint=_HINT)
    return value


def show_duration(seconds: float) -> str:
    """Say a duration exactly, in the units that a person would choose: ``1 d 2 h``, ``90 s``, ``1.5 s``."""
    if seconds < 120 or seconds != round(seconds):
        return f"{seconds:.12g} s"
    left, parts = round(seconds), []
    for unit in ("d", "h", "min", "s"):
        count, left = divmod(left, round(_UNITS[unit]))
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def _sum_of_spans(text: str, compact: str, where: str | None) -> float:
    spans = _SPAN.findall(compact)
    if not spans or _SPAN.sub("", compact):
        raise ConfigError(f"'{text}' is not a duration", where=where, hint=_HINT)
    sizes = [_UNITS[unit] for _, unit in spans]
    if any(later >= earlier for earlier, later in pairwise(sizes)):
        hint = "write the largest unit first and each unit once, for example 1d2h30m"
        raise ConfigError(f"'{text}' is not a duration", where=where, hint=hint)
    return math.fsum(float(number) * size for (number, _), size in zip(spans, sizes, strict=True))
