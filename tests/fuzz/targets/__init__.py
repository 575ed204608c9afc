"""What is fuzzed. Each module has `one(data)`, which raises for a fault, and `WORDS` that a fuzzer should know."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

NAMES = ("sections", "records", "events", "frames", "sasl", "filters", "policies")


class Target(NamedTuple):
    """A target; `one` returns for every input that is treated as it should be."""

    one: Callable[[bytes], None]
    words: tuple[bytes, ...]


def load(name: str) -> Target:
    """Import a target and what it tests of the product."""
    module = importlib.import_module(f"{__name__}.{name}")
    return Target(module.one, module.WORDS)
