"""The texts in Python files, from their byte code, which is there: to parse the product takes four times as long."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType


def texts(path: Path) -> Iterator[str]:
    """Every text that a module's code has: docstrings, pieces of formatted texts and annotations included."""
    waiting: list[object] = [SourceFileLoader("module", str(path)).get_code("module")]
    for each in waiting:
        if isinstance(each, CodeType):
            waiting += each.co_consts
        elif isinstance(each, tuple | frozenset):
            waiting += each
        elif isinstance(each, str):
            yield each
