"""Large YAML texts, parsed in C: ruamel.yaml takes seconds for a policy of thousands of rules, libyaml tenths of one.

libyaml speaks YAML 1.1, and policies are YAML 1.2. So this parser takes only texts that mean the same in both,
and raises `AmbiguousYaml` for all others, and for every mistake: the general parser has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

_Loader = getattr(yaml, "CLoader", None)  # some builds of PyYAML lack the C library
_AMBIGUOUS: Final = re.compile(r"[^\n -~]|\\|^(?:---|\.\.\.|%)|(?:^|[\s\[{,])\?", re.MULTILINE)
"""What the two versions may read in different ways: tabs, other line breaks, escapes, directives, explicit keys."""
_PLAIN, _QUOTED = (True, False), (False, True)
_MAP, _LIST = Tag(suffix="tag:yaml.org,2002:map"), Tag(suffix="tag:yaml.org,2002:seq")
_DEEPEST: Final = 64


class AmbiguousYaml(Exception):
    """The general parser has to decide."""


def compose(text: str) -> Node:
    """The nodes of a YAML document, as the composer of ruamel.yaml makes them. Raises `AmbiguousYaml`.

    Only where nothing stands (`access:`), the position is that behind the key, and not that of what follows.
    """
    if _Loader is None or _AMBIGUOUS.search(text):
        raise AmbiguousYaml
    try:
        roots = list(_nodes(yaml.parse(text, Loader=_Loader)))
    except (yaml.YAMLError, UnicodeError):
        raise AmbiguousYaml from None
    if len(roots) != 1:
        raise AmbiguousYaml
    return roots[0]


def _nodes(events: Iterable[yaml.Event]) -> Iterator[Node]:
    """The root of each document. Raises `AmbiguousYaml` at names, tags, block scalars and what is very deep."""
    open_nodes: list[tuple[Node, list[Node]]] = []
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_nodes) == _DEEPEST:
                raise AmbiguousYaml
            open_nodes.append((_begun(event), []))
            continue
        if isinstance(event, yaml.ScalarEvent):
            node: Node = _scalar(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            node, within = open_nodes.pop()
            pairs = isinstance(node, MappingNode)
            node.value = list(zip(within[::2], within[1::2], strict=True)) if pairs else within
        elif isinstance(event, yaml.AliasEvent):
            raise AmbiguousYaml
        else:
            continue
        if open_nodes:
            open_nodes[-1][1].append(node)
        else:
            yield node


def _begun(event: yaml.CollectionStartEvent) -> Node:
    """A map or list, still without what is within it."""
    _check_unnamed(event)
    if isinstance(event, yaml.MappingStartEvent):
        return MappingNode(_MAP, [], event.start_mark, event.end_mark)
    return SequenceNode(_LIST, [], event.start_mark, event.end_mark)


def _scalar(event: yaml.ScalarEvent) -> ScalarNode:
    _check_unnamed(event)
    if event.style in ("|", ">"):  # libyaml takes what is no comment for one
        raise AmbiguousYaml
    return ScalarNode(_tag(event.value, event.implicit[0]), event.value, event.start_mark, event.end_mark)


def _check_unnamed(event: yaml.NodeEvent) -> None:
    if event.anchor is not None or event.tag is not None:
        raise AmbiguousYaml


@cache
def _resolver() -> VersionedResolver:
    resolver: VersionedResolver = YAML(typ="safe", pure=True).resolver
    return resolver


def _tag(value: str, plain: bool) -> object:
    return _resolver().resolve(ScalarNode, value, _PLAIN if plain else _QUOTED)
