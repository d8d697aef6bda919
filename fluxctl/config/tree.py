"""Values that know where they stand: the form in which configuration travels between text and model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fluxctl.errors import ConfigError

Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"

_SNIPPET_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key or value comes from.

    Args:
        origin: Short form for a comment beside the value: ``presets/run_sets/main.yaml:12``, ``--set``, ``default``.
        where: Exact form for an error: ``file:line:col``, or the whole argument.
        line: Line in the text, from 1; 0 when there is no text.
        column: Column in the line, from 1.
        length: Characters to underline.
        lines: The text's lines, for a snippet.
    """

    origin: str
    where: str
    line: int = 0
    column: int = 0
    length: int = 1
    lines: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def snippet(self) -> str | None:
        """The line with the one before it and a caret; None when there is no text."""
        if not 0 < self.line <= len(self.lines):
            return None
        shift = max(0, self.column - _SNIPPET_WIDTH // 2) if len(self.lines[self.line - 1]) > _SNIPPET_WIDTH else 0
        shown = []
        for number in range(max(1, self.line - 1), self.line + 1):
            text = self.lines[number - 1].replace("\t", " ")[shift : shift + _SNIPPET_WIDTH].rstrip()
            shown.append(f"{number:>4} | {text}")
        carets = "^" * max(1, min(self.length, _SNIPPET_WIDTH - (self.column - 1 - shift)))
        shown.append(f"     | {' ' * (self.column - 1 - shift)}{carets}")
        return "\n".join(shown)


DEFAULT: Final = Place("default", "default")


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place, and the place of its key if it has one."""

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    place: Place
    key: Place | None = None

    def plain(self) -> Plain:
        """The value without places."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, tuple):
            return [child.plain() for child in self.value]
        return self.value

    def child(self, part: str | int) -> Node | None:
        """The member of that name or index, if there is one."""
        if isinstance(self.value, dict) and isinstance(part, str):
            return self.value.get(part)
        if isinstance(self.value, tuple) and isinstance(part, int) and part < len(self.value):
            return self.value[part]
        return None

    def find(self, path: Iterable[str | int]) -> Node:
        """The node at ``path``, or the deepest one on the way to it."""
        node = self
        for part in path:
            child = node.child(part)
            if child is None:
                break
            node = child
        return node

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Every value that is not a non-empty mapping, with its path, in order."""
        if isinstance(self.value, dict) and self.value:
            for name, child in self.value.items():
                yield from child.leaves((*path, name))
        else:
            yield path, self


def mapping(children: dict[str, Node], place: Place = DEFAULT) -> Node:
    """A mapping node."""
    return Node(children, place)


def plain_node(value: Any, place: Place) -> Node:  # noqa: ANN401 - any value that a flag or a default holds
    """A tree of ``value`` with one place for all of it."""
    if isinstance(value, dict):
        return Node({str(name): plain_node(child, place) for name, child in value.items()}, place, place)
    if isinstance(value, list | tuple):
        return Node(tuple(plain_node(child, place) for child in value), place, place)
    return Node(value, place, place)


def problem_at(place: Place, message: str, hint: str | None = None) -> ConfigError:
    """A problem with its position and snippet."""
    return ConfigError(message, hint=hint, where=place.where, snippet=place.snippet())
