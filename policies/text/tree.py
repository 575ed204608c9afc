"""YAML as plain data, with the position of every key and value; all mistakes of the YAML are reported at once.

Only the composer of ruamel.yaml is used, and one in C for large texts (`quick_compose`): tags other than those of plain
data, repeated keys and endless aliases are mistakes, and keys are always text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from policies.text.diagnostics import Diagnostic, Loc, PolicyErrors, PolicyLine

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""A value of a policy file: YAML without tags, dates and the like."""

MAX_BYTES: Final = 1 << 20
_LARGE: Final = 1 << 16
"""Characters from which on a text is worth a parser in C."""
_MAX_NODES: Final = 100_000
_MAX_DEPTH: Final = 32
_TAG: Final = "tag:yaml.org,2002:"
_KINDS: Final = ("map", "seq", "str", "null", "bool", "int", "float", "timestamp", "merge", "value")
_TAGS: Final = frozenset(_TAG + name for name in _KINDS)
_BOOLS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class SourcePosition(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class Tree:
    """A parsed file: its values as plain `data`, positions by `at`, and the `problems` of the YAML itself."""

    def __init__(self, file: str, root: Node | None) -> None:
        self.file: Final = file
        self.problems: list[Diagnostic] = []
        self._root = root
        self._left = _MAX_NODES
        self.data: Final[Plain] = None if root is None else self._plain(root, ())

    def at(self, loc: Loc, *, key: bool = False) -> SourcePosition:
        """The position of the value at `loc`, or of its key; of the innermost value that exists, if there is none."""
        node, mark = self._root, None
        for part in loc:
            step = _step(node, part)
            if step is None:
                break
            name, node = step
            mark = name if name is not None and key else node
        start = getattr(mark or node, "start_mark", None)
        return SourcePosition(1, 1) if start is None else SourcePosition(start.line + 1, start.column + 1)

    def policy_line(self, loc: Loc) -> PolicyLine:
        """The line of the value at `loc`."""
        return PolicyLine(self.file, self.at(loc).line)

    def locate(self, found: Diagnostic) -> Diagnostic:
        """The same diagnostic with its position in the file."""
        line, column = self.at(found.loc, key=found.at_key)
        return replace(found, file=self.file, line=line, column=column, key=dotted(self._written(found.loc)))

    def _written(self, loc: Loc) -> Loc:
        """The place without the indexes of lists that were written as one value (`may: send`)."""
        parts: list[str | int] = []
        node = self._root
        for part in loc:
            if isinstance(node, ScalarNode) and isinstance(part, int):
                continue
            parts.append(part)
            step = _step(node, part)
            node = step[1] if step else None
        return tuple(parts)

    def _plain(self, node: Node, loc: Loc) -> Plain:
        self._left -= 1
        if len(loc) > _MAX_DEPTH or self._left < 0:
            if self._left >= -1:
                self._report(node, loc, "too deep or too large; does an alias contain itself?")
            return None
        if str(node.tag) not in _TAGS:
            self._report(node, loc, f"unknown tag {node.tag}")
        if isinstance(node, MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, SequenceNode):
            return [self._plain(item, (*loc, at)) for at, item in enumerate(node.value)]
        return self._scalar(node, loc)

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, Plain]:
        plain: dict[str, Plain] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._report(key, loc, "a key must be plain text")
            elif key.value in plain:
                self._report(key, (*loc, key.value), "this key is repeated")
            else:
                plain[key.value] = self._plain(value, (*loc, key.value))
        return plain

    def _scalar(self, node: Node, loc: Loc) -> Plain:
        kind = str(node.tag).removeprefix(_TAG)
        text: str = node.value
        if kind == "null":
            return None
        if kind == "bool":
            return _BOOLS.get(text.lower(), text)
        if kind in ("int", "float"):
            return _number(text, int if kind == "int" else float)
        return text

    def _report(self, node: Node, loc: Loc, message: str) -> None:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        self.problems.append(Diagnostic(loc, message, file=self.file, line=line, column=column, key=dotted(loc)))


def _number(text: str, kind: type[int] | type[float]) -> int | float | str:
    try:
        return int(text, 0) if kind is int else float(text)
    except ValueError:
        return text


def _step(node: Node | None, part: str | int) -> tuple[Node | None, Node] | None:
    """The key node (of a mapping) and value node one step down."""
    if isinstance(node, MappingNode):
        pairs: Iterator[tuple[Node, Node]] = iter(node.value)
        return next(((key, value) for key, value in pairs if key.value == part), None)
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None


def dotted(loc: Loc) -> str:
    """`scopes.edge.listen[0].bind`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{_printable(part)}" if text else _printable(part)
    return text


def _printable(part: str) -> str:
    """A key for one line of a terminal."""
    plain = part if len(part) <= 64 else part[:61] + "..."
    return plain if plain.isprintable() and "." not in plain and plain else repr(plain)


def parse(raw: bytes, file: str) -> Tree:
    """Parse a file; raises `PolicyErrors` if it is not YAML at all."""
    try:
        if len(raw) > MAX_BYTES:
            raise ValueError(f"a policy file may have at most {MAX_BYTES} bytes")
        return Tree(file, _compose(raw.decode("utf-8-sig")))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _unreadable(file, line, column, f"not YAML: {error.problem or error.context}") from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _unreadable(file, line, 1, "not UTF-8 text") from None
    except RecursionError:
        raise _unreadable(file, 1, 1, f"too deep: values are nested {_MAX_DEPTH} levels deep at most") from None
    # For some hostile texts, the parser raises other exceptions (huge escapes).
    except (
        YAMLError,
        ValueError,
        ArithmeticError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        text = str(error).splitlines() or [type(error).__name__]
        raise _unreadable(file, 1, 1, f"not YAML: {text[0]}") from None


def _compose(text: str) -> Node | None:
    if len(text) >= _LARGE:
        from policies.text import quick_compose as quick  # whose import takes longer than parsing what is small

        with suppress(quick.AmbiguousYaml):
            return quick.compose(text)
    root: Node | None = YAML(typ="safe", pure=True).compose(text)
    return root


def _unreadable(file: str, line: int, column: int, message: str) -> PolicyErrors:
    return PolicyErrors([Diagnostic((), message, file=file, line=line, column=column)])
