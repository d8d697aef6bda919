"""The experiments that have figures. One file each; to add one, write it and name it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fluxctl.plots import e1, e2, e3, e4, e5
from fluxctl.plots.figure import Figure
from fluxctl.plots.group import Group, Options

EXPERIMENTS: Final[Mapping[str, tuple[str, Callable[[Sequence[Group], Options], list[Figure]]]]] = {
    "e1": ("Accuracy and loss", e1.draw),
    "e2": ("Utilisation", e2.draw),
    "e3": ("Productivity", e3.draw),
    "e4": ("Network", e4.draw),
    "e5": ("Sessions and participation", e5.draw),
}


def draw(names: Sequence[str], groups: Sequence[Group], options: Options) -> list[Figure]:
    """Draw experiments.

    Args:
        names: Of :data:`EXPERIMENTS`.
        groups: What to show.
        options: How. With a warning, every figure says that it mixes conditions.
    """
    figures = [figure for name in names for figure in EXPERIMENTS[name][1](groups, options)]
    return [figure.as_mixed() for figure in figures] if options.warning else figures
