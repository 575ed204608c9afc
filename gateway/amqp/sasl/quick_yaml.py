"""Plain YAML maps, parsed in C: for files with thousands of entries that are read while the gateway serves.

PyYAML speaks YAML 1.1 and the general parser YAML 1.2. This one takes only texts that mean the same in both and
raises `Unsure` for all others, for every mistake, too: the general parser has the last word.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import yaml

YamlMap: TypeAlias = dict[object, object]
"""What a YAML map becomes; its keys are text, or anything in a file with mistakes."""
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # some builds of PyYAML lack the C library
_AMBIGUOUS = re.compile(r"[&*!<|>%]|iterations['\"]?\s*:\s*['\"]")
_DEEP = re.compile(r"[\[?]|-\s+-|(?:\{[^{}]*){4}|^ {64}", re.MULTILINE)
"""What may be nested deeply: PyYAML's composer in C takes stack for each level, and the process would crash."""
_TEXT_KEY = re.compile(r"(?!(?:null|true|false)$)[^\W\d]|\$secret$", re.IGNORECASE)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class Unsure(Exception):
    """The general parser has to decide."""


class _UniqueKeys(_Loader):  # type: ignore[misc]
    """Refuses maps with a key that is there twice; PyYAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> YamlMap:
        made: YamlMap = super().construct_mapping(node, deep=deep)
        if len(made) != len(node.value):
            raise Unsure
        return made


def parse(text: str) -> YamlMap:
    """Return a map of text keys; scalars are `str`. Raises `Unsure`."""
    if _AMBIGUOUS.search(text) or _DEEP.search(text):
        raise Unsure
    try:
        root = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506  constructs nothing but str, list and dict
    except (yaml.YAMLError, UnicodeError, RecursionError):
        raise Unsure from None
    if not isinstance(root, dict) or not all(_TEXT_KEY.match(key) for key in root):
        raise Unsure
    return root


def whole_number(text: object) -> int | None:
    """Return the number that an unquoted scalar means in YAML 1.1 and 1.2 alike."""
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None
