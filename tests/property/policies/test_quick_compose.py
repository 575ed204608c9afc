"""What the parser in C accepts has the nodes that ruamel.yaml finds, at the same lines and columns."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

import policies
from policies.text.quick_compose import AmbiguousYaml, compose

EXAMPLES = sorted((Path(policies.__file__).parent / "examples").glob("*.yaml"))
LINES = [line for file in EXAMPLES for line in file.read_text().splitlines()]
PIECES = (
    ": ", "- ", ", ", "[", "]", "{", "}", "\n", "  ", "#", " #", '"', "'", "''", "null", "~", "yes", "no", "on", "0o17",
    "017", "1:30", "0x1F", "1_000", ".5", "1e3", ".inf", "2026-01-01", "<<", "=", "a", "b: 1", "key:", "-", ":", "?",
    "|", ">", "|-", ">+", "&a", "*a", "!x", "!!str", "@", "`", "%", "\\n", "**", "x:y", "http://h:1/p", "a#b",
    "'it''s'",
    '"q"', "[]", "{}", "- - a", "? a", "---", "...", "\n\n", "\n  ", "\n    ", "\n- ", "1.0", "+1", "-0", "True",
    "TRUE",
    "1.", "0b1", "12:30:45", "\t", "\x85", "\u2028", "é",
)  # fmt: skip
pieces = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Lines of an example, cut in places where something else may stand."""
    start = draw(st.integers(0, len(LINES) - 1))
    text = "\n".join(LINES[start : start + draw(st.integers(1, 8))])
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[before:after] for before, after in pairwise([0, *cuts, len(text)])]
    return "".join(part + draw(st.sampled_from(("", *PIECES))) for part in parts[:-1]) + parts[-1]


def flat(node: Node | None) -> Any:
    """A node and those within it, to compare; where nothing stands, the parsers may differ by the position."""
    if node is None:
        return None
    within = node.value
    if isinstance(node, MappingNode):
        within = [(flat(key), flat(value)) for key, value in within]
    elif isinstance(node, SequenceNode):
        within = [flat(each) for each in within]
    start, end = node.start_mark, node.end_mark
    place = (start.line, start.column) if within != "" or end.index > start.index else None
    return type(node), str(node.tag), place, within


def general(text: str) -> Any:
    return flat(YAML(typ="safe", pure=True).compose(text))


@given(pieces | damaged())
def test_what_is_accepted_means_the_same(text: str) -> None:
    try:
        found = compose(text)
    except AmbiguousYaml:
        return
    assert flat(found) == general(text)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_usual_policies_are_accepted(file: Path) -> None:
    assert flat(compose(file.read_text())) == general(file.read_text())


@pytest.mark.parametrize(
    "text", ["a: &x 1\nb: *x", "a: !!str 1", "a: |#\n  b", "a: [", "a: \tb", "? a", "--- a", "", "[" * 100 + "]" * 100]
)
def test_the_general_parser_decides(text: str) -> None:
    with pytest.raises(AmbiguousYaml):
        compose(text)
