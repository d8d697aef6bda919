"""HTML that cannot be broken by what it shows: text is escaped where it is put in, and only elements are trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from fluxctl.analyses.result import Grid

_SHORT: Final = 10  # characters
_VOID: Final = frozenset({"meta", "link", "br", "hr"})


class Html(str):
    """Markup that was made here; any other string is text."""

    __slots__ = ()


def element(name: str, /, *parts: str, **attributes: str) -> Html:
    """An element.

    Args:
        name: Its tag.
        *parts: What is in it: :class:`Html` as it is, other strings as text.
        **attributes: Values, which are escaped; a trailing underscore of a name is left out (``class_``).
    """
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(parts)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Parts one after the other, texts escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[bool] = ()) -> Html:
    """A table that scrolls within itself when the screen is narrow.

    Args:
        titles: Of the columns.
        rows: Cells of each row.
        numbers: Which columns hold numbers; they are set to the right.
    """
    kinds = ["number" if is_number else "word" for is_number in numbers] or ["word"] * len(titles)
    head = element("tr", *(element("th", title, class_=kind) for title, kind in zip(titles, kinds, strict=True)))
    body = (
        element("tr", *(element("td", cell, class_=_kind(cell, kind)) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    )
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="wide")


def _kind(cell: str, kind: str) -> str:
    """The class of a cell; a number with its unit stays on one line."""
    return f"{kind} short" if kind == "word" and len(cell) <= _SHORT else kind


def grid_table(grid: Grid) -> Html:
    """A table of an analysis with its title."""
    columns = [grid.column_texts(index) for index in range(len(grid.measures))]
    rows = list(zip(*columns, strict=True))
    titles = [measure.title for measure in grid.measures]
    body = table(titles, rows, [bool(measure.pattern) for measure in grid.measures])
    return join([element("h4", grid.title), body])


def folded(summary: str, *parts: str, is_open: bool = False) -> Html:
    """A part of the page that opens on a click."""
    attributes = {"open": ""} if is_open else {}
    return element("details", element("summary", summary), *parts, **attributes)
