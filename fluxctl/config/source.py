"""YAML text to a tree that remembers where every key and value stands.

The tree is built from ruamel's node graph, not from its loaded objects: nodes carry exact start and end marks for keys
that come through a merge (``<<``), for both copies of a duplicate key, and for plain scalars, none of which survive
loading. Only the types of the YAML core schema are understood; tags, documents after the first and recursive anchors
are refused.

Problems are collected, not raised one by one: :func:`parse` raises every problem of a text at once.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from fluxctl.config.tree import DEFAULT, Node, Place, Scalar, problem_at
from fluxctl.errors import ConfigError, ConfigProblemsError, UnknownNameError, os_reason

_LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as ruamel counts lines
_TAG: Final = "tag:yaml.org,2002:"
_MAX_DEPTH: Final = 32
_MAX_NODES: Final = 20_000  # aliases may multiply; a request has some hundred values


@dataclass(frozen=True, slots=True)
class Text:
    """A text to parse and the name to show for it.

    Args:
        text: YAML.
        name: File name, or the whole argument (``--set aggregation.goal=ten``).
        origin: Set for an argument: what to show as origin instead of ``name:line``. Places then carry no line.
    """

    text: str
    name: str
    origin: str | None = None

    def place(self, line: int, column: int, length: int, lines: tuple[str, ...]) -> Place:
        """The place at a position that counts from 0."""
        if self.origin is not None:
            return Place(self.origin, self.name)
        return Place(
            f"{self.name}:{line + 1}", f"{self.name}:{line + 1}:{column + 1}", line + 1, column + 1, length, lines
        )


def read_text(path: Path, name: str | None = None) -> Text:
    """Read a YAML file.

    Raises:
        UnknownNameError: If there is no such file.
        ConfigError: If it cannot be read or is not UTF-8.
    """
    shown = name or str(path)
    try:
        return Text(path.read_bytes().decode("utf-8-sig"), shown)
    except FileNotFoundError:
        raise UnknownNameError(f"there is no file '{shown}'", where=shown) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text: byte {error.start} is invalid", where=shown) from None
    except OSError as error:
        raise ConfigError(f"cannot read: {os_reason(error)}", where=shown) from None


def parse(source: Text) -> Node:
    """Parse one YAML document.

    Raises:
        ConfigError: With every problem of the text, in the order of their positions.
    """
    builder = _Builder(source)
    node = builder.build()
    if builder.problems:
        ordered = sorted(builder.problems, key=lambda item: item[0])
        # an anchored part is visited once per use, and its problems are one
        raise ConfigProblemsError.of({(item.where, item.message): item for _, item in ordered}.values())
    return node


def snake(name: str) -> str:
    """``maxBins`` and ``max-bins`` as ``max_bins``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


class _Builder:
    """Turns ruamel's node graph into a tree, collecting problems on the way."""

    def __init__(self, source: Text) -> None:
        self.source = source
        self.lines = tuple(_LINE_END.split(source.text))
        self.problems: list[tuple[tuple[int, int], ConfigError]] = []
        self._yaml = YAML(typ="safe", pure=True)
        self._open: set[int] = set()
        self._num_nodes = 0

    def build(self) -> Node:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a re-used anchor is legal YAML
                root = self._yaml.compose(self.source.text)
        except MarkedYAMLError as error:
            self._syntax(error)
            return Node(None, DEFAULT)
        except YAMLError as error:
            self._report(self._place(0, 0, 1), f"not valid YAML: {str(error).splitlines()[0]}")
            return Node(None, DEFAULT)
        except (RecursionError, ValueError, AttributeError):
            self._report(self._place(0, 0, 1), "not valid YAML: nested too deeply or malformed")
            return Node(None, DEFAULT)
        if root is None:
            return Node(None, self._place(0, 0, 1))
        return self._node(root, 0)

    def _place(self, line: int, column: int, length: int) -> Place:
        return self.source.place(line, column, length, self.lines)

    def _at(self, node: Any) -> Place:  # noqa: ANN401 - ruamel's nodes are untyped
        start, end = node.start_mark, node.end_mark
        line: str = self.lines[start.line] if start.line < len(self.lines) else ""
        stop = end.column if end.line == start.line else len(line.rstrip())
        return self._place(start.line, start.column, max(1, stop - start.column))

    def _report(self, place: Place, message: str, hint: str | None = None) -> None:
        self.problems.append(((place.line, place.column), problem_at(place, message, hint)))

    def _syntax(self, error: MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        place = self._place(mark.line, mark.column, 1) if mark else self._place(0, 0, 1)
        what = error.problem or error.context or "malformed"
        hint = "indent with spaces" if "\\t" in what else None
        self._report(place, f"not valid YAML: {what}", hint)

    def _node(self, node: Any, depth: int) -> Node:  # noqa: ANN401
        place = self._at(node)
        self._num_nodes += 1
        if id(node) in self._open:
            self._report(place, "an anchor must not contain itself")
            return Node(None, place)
        if depth > _MAX_DEPTH or self._num_nodes > _MAX_NODES:
            if self._num_nodes <= _MAX_NODES + 1:
                self._report(place, "nested too deeply or too large for a configuration")
            return Node(None, place)
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                self._refuse_tag(node, "map")
                return Node(self._members(node, depth), place)
            if isinstance(node, SequenceNode):
                self._refuse_tag(node, "seq")
                return Node(tuple(self._node(item, depth + 1) for item in node.value), place)
            return Node(self._scalar(node), place)
        finally:
            self._open.discard(id(node))

    def _refuse_tag(self, node: Any, expected: str) -> None:  # noqa: ANN401
        if str(node.tag) != _TAG + expected:
            shown = str(node.tag).replace(_TAG, "!!")
            self._report(self._at(node), f"tag '{shown}' is not supported", "write the plain value")

    def _scalar(self, node: ScalarNode) -> Scalar:
        construct = self._yaml.constructor
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return bool(construct.construct_yaml_bool(node))
            case "int":
                return self._number(node, construct.construct_yaml_int)
            case "float":
                return self._number(node, construct.construct_yaml_float)
            case "str" | "timestamp":  # a date is text to us
                return str(node.value)
        self._refuse_tag(node, "str")
        return None

    def _number(self, node: ScalarNode, construct: Any) -> Scalar:  # noqa: ANN401
        try:
            number: int | float = construct(node)
        except (ValueError, OverflowError):
            self._report(self._at(node), f"'{node.value}' is not a number", "quote it if it is text")
            return None
        return number

    def _members(self, node: MappingNode, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        spelled: dict[str, str] = {}  # snake_case form -> spelling seen first
        merged: dict[str, Node] = {}
        for key, value in node.value:
            place = self._at(key)
            if str(key.tag) == _TAG + "merge":
                for name, child in self._merged(value, depth).items():
                    merged.setdefault(name, child)
                continue
            if not isinstance(key, ScalarNode) or str(key.tag) not in (_TAG + "str", _TAG + "timestamp"):
                self._report(place, "a key must be text", "quote it if it is meant")
                continue
            name = str(key.value)
            first = spelled.setdefault(snake(name), name)
            if first in own:
                self._twice(first, name, own[first].key or place, place)
                continue
            own[name] = replace(self._node(value, depth + 1), key=place)
        for name, child in merged.items():
            first = spelled.get(snake(name), name)
            if first == name:
                own.setdefault(name, child)
            else:  # the same key in two spellings, one of them through a merge
                self._twice(name, first, child.key or child.place, own[first].key or own[first].place)
        return own

    def _twice(self, first: str, second: str, first_at: Place, second_at: Place) -> None:
        at = f"first at {first_at.where}"
        if first == second:
            self._report(second_at, f"key '{second}' is given twice, {at}", "keep one of them")
        else:
            good = next((name for name in (first, second) if name == snake(name)), snake(second))
            self._report(
                second_at, f"'{first}' and '{second}' are two spellings of one key, {at}", f"keep only '{good}'"
            )

    def _merged(self, value: Any, depth: int) -> dict[str, Node]:  # noqa: ANN401
        members: dict[str, Node] = {}
        for part in value.value if isinstance(value, SequenceNode) else [value]:
            if not isinstance(part, MappingNode):
                self._report(self._at(part), "a merge (<<) takes a mapping or a list of mappings")
                continue
            node = self._node(part, depth + 1)
            if isinstance(node.value, dict):
                for name, child in node.value.items():
                    members.setdefault(name, child)
        return members
