"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"
_GAP: Final = "·"  # not a number


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as bars between their lowest and highest.

    Args:
        values: In order; what is not finite becomes a dot.
        width: Most characters; of more values, each bar shows the last of its share.
    """
    if width < 1 or not values:
        return ""
    shown = (
        [values[math.ceil((i + 1) * len(values) / width) - 1] for i in range(width)] if len(values) > width else values
    )
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return _GAP * len(shown)
    low, span = min(finite), max(finite) - min(finite)
    return "".join(_bar((value - low) / span if span > 0 else 0.0) for value in shown)


def _bar(share: float) -> str:
    return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))] if math.isfinite(share) else _GAP
